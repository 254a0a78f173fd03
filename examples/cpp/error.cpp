// One type of error, a few codes: each says what the caller can do.
#include <gpux/error.h>
#include <gpux/runtime.h>

#include <iostream>

int main() {
  try {
    const gpux::Runtime model("no-such-model.onnx");
  } catch (const gpux::Error& error) {
    std::cout << to_string(error.code()) << ": " << error.within("starting up").what() << '\n';
    return error.code() == gpux::ErrorCode::not_found ? 0 : 1;
  }
  return 1;
}
