// Answers one message, and prints the answer as it comes: chat MODEL MESSAGE
#include <gpux/chat.h>
#include <gpux/error.h>
#include <gpux/generator.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const gpux::GenerationMemory memory = gpux::Generator::memory_of(argv[1]);
    std::printf("%llu bytes with a full context\n", static_cast<unsigned long long>(memory.total_bytes()));
    const gpux::Generator generator(argv[1]);
    gpux::GenerationSettings settings;
    settings.max_tokens = 20;
    std::vector<gpux::ChatMessage> messages(1);
    messages[0].role = "user";
    messages[0].content = argv[2];
    const gpux::ChatCompletion answer = generator.chat(messages, settings, {}, [](const gpux::ChatDelta& delta) {
      if (delta.kind == gpux::ChatDelta::Kind::content) std::printf("%s", delta.text.c_str());
      return std::fflush(stdout) == 0;  // false ends the answer
    });
    std::printf("\n%zu tokens, %s\n", answer.completion.tokens.size(), to_string(answer.completion.reason).data());
    messages.push_back(answer.message);  // the conversation goes on from here
    return 0;
  } catch (const gpux::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
