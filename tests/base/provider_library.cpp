// What provider libraries export by the names that ONNX Runtime looks for. None of it is ever called.
#define EXPORTED extern "C" __attribute__((visibility("default")))

#ifdef IS_BRIDGE
EXPORTED void* GetProvider() {
  return nullptr;
}
#endif

#ifdef IS_PLUGIN
EXPORTED void* CreateEpFactories() {
  return nullptr;
}

EXPORTED void* ReleaseEpFactory(void* /*factory*/) {
  return nullptr;
}
#endif

EXPORTED int made_for_tests() {
  return 1;
}
