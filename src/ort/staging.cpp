#include "ort/staging.h"

#include <cstring>
#include <utility>

#include "base/log.h"

namespace gpux::ort {
namespace {

constexpr std::size_t mib = std::size_t{1024} * 1024;
// Memory that runs do not need all the time must not be what a later load lacks.
constexpr BlockPool::Limits device_limits{.kept_bytes = 256 * mib, .all_bytes = static_cast<std::size_t>(-1) / 2};
// Callers may keep results for long. Pinned memory is not swapped: what is above is pageable.
constexpr BlockPool::Limits pinned_limits{.kept_bytes = 256 * mib, .all_bytes = 512 * mib};

std::size_t bytes_of(ElementType type, const Shape& shape) noexcept {
  return (static_cast<std::size_t>(element_count(shape)) * bits_of(type) + 7) / 8;
}

// `Allocator`: with Alloc() and Free() as Ort::Allocator. Held by the pool's blocks, too.
template <typename Allocator>
BlockPool::Source source_of(std::shared_ptr<Allocator> allocator) {
  return {.allocate = [allocator](std::size_t bytes) -> void* {
            try {
              return allocator->Alloc(bytes);
            } catch (const Ort::Exception& exception) {
              log::debug("no memory for a copy to or from a device: {}", exception.what());
              return nullptr;
            }
          },
          .free = [allocator](void* address) { allocator->Free(address); }};
}

Ort::Value value_in(const Ort::ConstMemoryInfo& memory, std::byte* address, std::size_t bytes, ElementType type,
                    const Shape& shape) {
  return Ort::Value::CreateTensor(memory, address, bytes, shape.data(), shape.size(), to_ort(type));
}

/// Copies of one call: all from one memory to another.
struct Copies {
  std::vector<const OrtValue*> from;
  std::vector<OrtValue*> to;

  void add(const OrtValue* source, OrtValue* target) {
    from.push_back(source);
    to.push_back(target);
  }

  void make() const {
    if (from.empty()) return;
    Ort::ThrowOnError(Ort::GetApi().CopyTensors(environment(), from.data(), to.data(), nullptr, from.size()));
  }
};

}  // namespace

void CopyCounters::count_to_device(std::size_t bytes, bool is_pinned) noexcept {
  ++counts_[0];
  counts_[1] += bytes;
  if (is_pinned) ++counts_[4];
}

void CopyCounters::count_from_device(std::size_t bytes, bool is_pinned) noexcept {
  ++counts_[2];
  counts_[3] += bytes;
  if (is_pinned) ++counts_[5];
}

TransferCounts CopyCounters::counts() const noexcept {
  return {.to_device = counts_[0],
          .to_device_bytes = counts_[1],
          .from_device = counts_[2],
          .from_device_bytes = counts_[3],
          .to_device_pinned = counts_[4],
          .from_device_pinned = counts_[5]};
}

Staging::Staging(Ort::Session& session, const Ort::ConstMemoryInfo& device, const Ort::ConstMemoryInfo& pinned,
                 OrtAllocator* pinned_allocator)
    : device_(device),
      pinned_(pinned),
      device_pool_(
          std::make_shared<BlockPool>(source_of(std::make_shared<Ort::Allocator>(session, device)), device_limits)),
      pinned_pool_(std::make_shared<BlockPool>(source_of(std::make_shared<Ort::UnownedAllocator>(pinned_allocator)),
                                               pinned_limits)) {}

StagedValue Staging::device_value(ElementType type, const Shape& shape) const {
  StagedValue staged;
  const std::size_t bytes = bytes_of(type, shape);
  if (bytes == 0) return staged;
  staged.block = device_pool_->take(bytes);
  if (staged.block != nullptr) staged.value = value_in(device_, staged.block.get(), bytes, type, shape);
  return staged;
}

std::shared_ptr<std::byte> Staging::pinned_block(std::size_t bytes) const {
  return bytes < min_pinned_bytes ? nullptr : pinned_pool_->take(bytes);
}

std::vector<StagedValue> Staging::copy_in(std::span<const Tensor* const> tensors, CopyCounters& counters) const {
  std::vector<StagedValue> on_device, on_host;
  on_host.reserve(tensors.size());  // what is to be copied refers to these
  on_device.reserve(tensors.size());
  Copies pageable, pinned;
  for (const Tensor* tensor : tensors) {
    StagedValue& target = on_device.emplace_back(device_value(tensor->type(), tensor->shape()));
    if (!target.value) continue;
    StagedValue& source = on_host.emplace_back();
    source.block = pinned_block(tensor->byte_size());
    if (source.block != nullptr) {
      std::memcpy(source.block.get(), tensor->bytes().data(), tensor->byte_size());
      source.value = value_in(pinned_, source.block.get(), tensor->byte_size(), tensor->type(), tensor->shape());
      pinned.add(source.value, target.value);
    } else {
      source.value = wrap(*tensor);
      pageable.add(source.value, target.value);
    }
  }
  pageable.make();
  pinned.make();
  std::size_t source = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!on_device[i].value) continue;
    counters.count_to_device(tensors[i]->byte_size(), on_host[source++].block != nullptr);
  }
  return on_device;
}

std::vector<Tensor> Staging::copy_out(std::span<const OrtValue* const> values, CopyCounters& counters) const {
  std::vector<Tensor> tensors;
  std::vector<Ort::Value> targets;
  std::vector<bool> is_pinned;
  targets.reserve(values.size());
  Copies pageable, pinned;
  for (const OrtValue* value : values) {
    const auto description = Ort::ConstValue(value).GetTensorTypeAndShapeInfo();
    const ElementType type = from_ort(description.GetElementType());
    Shape shape = description.GetShape();
    const std::size_t bytes = bytes_of(type, shape);
    std::shared_ptr<std::byte> block = pinned_block(bytes);
    is_pinned.push_back(block != nullptr);
    if (block != nullptr) {
      targets.push_back(value_in(pinned_, block.get(), bytes, type, shape));
      const std::span<const std::byte> view(block.get(), bytes);
      tensors.push_back(Tensor::borrow(type, std::move(shape), view, std::move(block)));
    } else {
      tensors.push_back(Tensor::allocate(type, std::move(shape)));
      targets.push_back(wrap(tensors.back()));
    }
    if (bytes != 0) (is_pinned.back() ? pinned : pageable).add(value, targets.back());
  }
  pageable.make();
  pinned.make();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].byte_size() != 0) counters.count_from_device(tensors[i].byte_size(), is_pinned[i]);
  }
  return tensors;
}

}  // namespace gpux::ort
