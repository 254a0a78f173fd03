extern "C" __attribute__((visibility("default"))) int gpux_vendor_library() {
  return 1;
}
