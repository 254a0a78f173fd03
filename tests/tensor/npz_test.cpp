#include "tensor/npz.h"

#include <random>

#include <gmock/gmock.h>
#include <zlib.h>

#include "tensor/npy.h"
#include "tensors.h"

namespace gpux::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<NamedTensor> read(const std::string& file, const NpzReading& reading = {}) {
  return read_npz(bytes_of(file), reading);
}

std::string npy_of(const Tensor& tensor) {
  std::string out;
  append_npy(out, tensor);
  return out;
}

void put(std::string& out, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i, number >>= 8U) out += static_cast<char>(number & 0xffU);
}

struct ZipMember {
  std::string name;
  std::string packed;
  std::uint16_t method = 0;
  std::uint32_t checksum = 0;
  std::uint32_t bytes = 0;
  std::uint16_t flags = 0;
};

ZipMember stored(std::string name, const std::string& content) {
  const auto checksum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  return {std::move(name), content, 0, static_cast<std::uint32_t>(checksum),
          static_cast<std::uint32_t>(content.size())};
}

std::string deflated(const std::string& content) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// An archive in the old form, without zip64.
std::string zip_of(const std::vector<ZipMember>& members, std::string_view comment = {}) {
  std::string out;
  std::string directory;
  for (const ZipMember& member : members) {
    std::string shared;
    put(shared, 20, 2);
    put(shared, member.flags, 2);
    put(shared, member.method, 2);
    put(shared, 0, 4);
    put(shared, member.checksum, 4);
    put(shared, member.packed.size(), 4);
    put(shared, member.bytes, 4);
    put(shared, member.name.size(), 2);
    put(shared, 0, 2);
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    directory += shared;
    put(directory, 0, 10);
    put(directory, out.size(), 4);
    directory += member.name;
    put(out, 0x04034b50, 4);
    out += shared + member.name + member.packed;
  }
  const std::size_t offset = out.size();
  out += directory;
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, members.size(), 2);
  put(out, members.size(), 2);
  put(out, directory.size(), 4);
  put(out, offset, 4);
  put(out, comment.size(), 2);
  return out.append(comment);
}

const Tensor small = Tensor::of<std::int32_t>({2}, std::vector<std::int32_t>{1, 2});

TEST(Npz, ReadsWhatNumPyWrites) {
  for (const std::string name : {"stored.npz", "deflated.npz"}) {
    const std::vector<NamedTensor> tensors = read(reference(name));
    ASSERT_EQ(tensors.size(), 3U) << name;
    EXPECT_EQ(tensors[0].first, "x");
    EXPECT_THAT(tensors[0].second.as<float>(), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_EQ(tensors[1].first, "name/with:signs");
    EXPECT_EQ(tensors[1].second.type(), ElementType::int64);
    EXPECT_THAT(tensors[2].second.strings(), ElementsAre("a", "bc"));
  }
}

TEST(Npz, ReadsAsTheDeclaredTypes) {
  NpzReading reading;
  reading.declared = [](std::string_view name) {
    return name == "x" ? std::optional(ElementType::int8) : std::nullopt;
  };
  EXPECT_THAT(read(reference("deflated.npz"), reading)[0].second.as<std::int8_t>(), ElementsAre(0, 1, 2, 3, 4, 5));
  reading.declared = [](std::string_view) { return std::optional(ElementType::boolean); };
  EXPECT_THAT(refusal_of([&] { read(reference("stored.npz"), reading); }),
              HasSubstr("array \"x\": [0][2]: 2 does not fit"));
}

TEST(Npz, ReadsWhatItWrites) {
  const std::vector<NamedTensor> tensors{{"a", small},
                                         {"sign/é", Tensor::allocate(ElementType::float32, {0, 3})},
                                         {"text", Tensor::of_strings({}, {"日本"})},
                                         {"", Tensor::of<float>({}, std::vector<float>{2.5F})}};
  const std::string file = write_npz(tensors);
  const std::vector<NamedTensor> back = read(file);
  ASSERT_EQ(back.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(back[i].first, tensors[i].first);
    EXPECT_TRUE(same(back[i].second, tensors[i].second));
  }
  EXPECT_EQ(write_npz(tensors), file);
  EXPECT_TRUE(read(write_npz({})).empty());
  EXPECT_THAT(refusal_of([] {
                write_npz(std::vector<NamedTensor>{{"a", small}, {"a", small}});
              }),
              HasSubstr("two tensors"));
}

TEST(Npz, ReadsPlainArchivesWithAComment) {
  const std::string content = npy_of(small);
  ZipMember packed = stored("b.npy", content);
  packed.packed = deflated(content);
  packed.method = 8;
  const std::vector<NamedTensor> tensors = read(zip_of({stored("a.npy", content), packed}, "a comment PK\5\6"));
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_TRUE(same(tensors[0].second, small));
  EXPECT_TRUE(same(tensors[1].second, small));
}

TEST(Npz, RefusesDamageAndBombs) {
  const std::string content = npy_of(small);
  const ZipMember good = stored("a.npy", content);
  const auto changed = [&](const auto& change) {
    ZipMember member = good;
    change(member);
    return zip_of({member});
  };
  const auto unpacking = [&](const auto& change) {
    return changed([&](ZipMember& m) {
      m.method = 8;
      m.packed = deflated(content);
      change(m);
    });
  };

  const struct {
    std::string file;
    std::string expected;
  } cases[] = {
      {"", "no zip archive"},
      {"PK", "no zip archive"},
      {reference("grid_f4.npy"), "no zip archive"},
      {zip_of({good, good}), "two members are named"},
      {changed([](ZipMember& m) { m.name = "a.txt"; }), "is not a .npy file"},
      {changed([](ZipMember& m) { m.name = "../\n.npz"; }), "is not a .npy file"},
      {changed([](ZipMember& m) { m.flags = 1; }), "is encrypted"},
      {changed([](ZipMember& m) { m.method = 12; }), "packed by method 12"},
      {changed([](ZipMember& m) { m.checksum ^= 1; }), "wrong checksum"},
      {changed([](ZipMember& m) { m.bytes += 1; }), "claims 137 bytes"},
      {changed([](ZipMember& m) {
         m.packed = "x";
         m.bytes = 1;
       }),
       "wrong checksum"},
      {unpacking([](ZipMember& m) { m.bytes = 0xfffffff0; }), "claims 4294967280 bytes"},
      {unpacking([](ZipMember& m) { m.bytes += 1; }), "does not unpack to 137 bytes"},
      {unpacking([](ZipMember& m) { m.bytes -= 1; }), "does not unpack to 135 bytes"},
      {unpacking([](ZipMember& m) { m.bytes = 0; }), "does not unpack to 0 bytes"},
      {unpacking([](ZipMember& m) { m.packed += "x"; }), "does not unpack"},
      {unpacking([](ZipMember& m) { m.packed.pop_back(); }), "does not unpack"},
      {unpacking([](ZipMember& m) { m.packed[0] = '\xff'; }), "does not unpack"},
  };

  for (const auto& c : cases) EXPECT_THAT(refusal_of([&] { read(c.file); }), HasSubstr(c.expected));
  EXPECT_THAT(refusal_of([&] { read(zip_of({stored("a.npy", "hello")})); }),
              HasSubstr("array \"a\": npy: this is not"));

  const std::string bomb_content = npy_of(Tensor::allocate(ElementType::uint8, {1 << 20}));
  ZipMember bomb = stored("a.npy", bomb_content);
  bomb.packed = deflated(bomb_content);
  bomb.method = 8;
  const std::string file = zip_of({bomb});
  EXPECT_LT(file.size(), 2000U);
  EXPECT_EQ(read(file).size(), 1U);
  EXPECT_THAT(message_of(ErrorCode::resource_exhausted, [&] { read(file, {.limit_bytes = 1 << 20}); }),
              HasSubstr("more than the 1048576 bytes allowed"));
}

TEST(Npz, EveryTruncationIsRefused) {
  for (const std::string& whole : {reference("deflated.npz"), write_npz(std::vector<NamedTensor>{{"a", small}})}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_THAT(refusal_of([&] { read(whole.substr(0, length)); }), HasSubstr("npz: ")) << length;
    }
  }
}

TEST(Npz, DamagedFilesNeverCrash) {
  std::mt19937_64 random(23);  // NOLINT(cert-msc51-cpp): the same cases each time
  for (const std::string& whole : {reference("deflated.npz"), write_npz(std::vector<NamedTensor>{{"a", small}})}) {
    for (int round = 0; round < 20000; ++round) {
      std::string file = whole;
      for (std::size_t i = 1 + random() % 3; i > 0; --i) file[random() % file.size()] = static_cast<char>(random());
      try {
        read(file);
      } catch (const Error& error) {
        ASSERT_TRUE(error.code() == ErrorCode::invalid_input || error.code() == ErrorCode::resource_exhausted)
            << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace gpux::test
