// Runs the text task of a model: pipeline MODEL TEXT [TEXT]
#include <gpux/error.h>
#include <gpux/pipeline.h>

#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    const gpux::Pipeline pipeline(argv[1]);
    const std::string first = argv[2], second = argc > 3 ? argv[3] : "";
    if (pipeline.task() == "text-classification") {
      for (const gpux::LabelScore& one : pipeline.classify(first)) {
        std::printf("%.4f  %s\n", one.score, one.label.c_str());
      }
    } else if (pipeline.task() == "text-ranking") {
      const std::vector<std::string> texts{second};
      for (const gpux::RankedText& one : pipeline.rank(first, texts)) std::printf("%.4f  %zu\n", one.score, one.index);
    } else if (pipeline.task() == "token-classification") {
      for (const gpux::TextEntity& one : pipeline.find_entities(first)) {
        std::printf("%.4f  %s  %s\n", one.score, one.label.c_str(), one.text.c_str());
      }
    } else if (pipeline.task() == "question-answering") {
      const gpux::TextAnswer answer = pipeline.answer(first, second);
      std::printf("%.4f  %s\n", answer.score, answer.text.c_str());
    }
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
