// Stores texts in a collection of vectors, and finds the nearest: collection URL MODEL QUERY TEXT...
#include <gpux/collection.h>
#include <gpux/embedder.h>
#include <gpux/error.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  try {
    const gpux::Embedder embedder(argv[2]);
    gpux::Collection collection(argv[1]);
    std::vector<gpux::CollectionText> texts;
    for (int i = 4; i < argc; ++i) texts.push_back({.text = argv[i], .payload = R"({"from": "example"})"});
    collection.upsert(embedder, texts);
    for (const gpux::CollectionHit& hit :
         collection.search(embedder, argv[3], {.count = 3, .where = {"from=example"}})) {
      std::printf("%.3f  %s\n", hit.score, hit.text.c_str());
    }
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
