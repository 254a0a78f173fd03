// Stands for NVIDIA's management library. It answers what the file GPUX_MADE_NVML says, a thing a line:
//   init 18                                       the code of nvmlInit
//   driver 570.86                                 the driver's version
//   gpu 00000000:01:00.0 GPU-a 85899345920 90 NVIDIA H100   a GPU: address, UUID, memory, compute capability, name
//   free 00000000:01:00.0 1024                    free memory of the GPU with this address; otherwise 0
// and appends the name of every function that is called to the same name with ".calls".
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

struct Gpu {
  std::string address, uuid, name;
  unsigned long long memory = 0, free = 0;
  int capability = 0;
};

struct Answers {
  int init = 0;
  std::string driver;
  std::vector<Gpu> gpus;
};

std::string file_name() {
  const char* name = std::getenv("GPUX_MADE_NVML");
  return name == nullptr ? "" : name;
}

void record(const char* function) {
  std::ofstream(file_name() + ".calls", std::ios::app) << function << '\n';
}

Answers answers() {
  Answers answers;
  std::ifstream stream(file_name());
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "init") words >> answers.init;
    if (kind == "driver") words >> answers.driver;
    if (kind == "free") {
      std::string address;
      unsigned long long bytes = 0;
      words >> address >> bytes;
      for (Gpu& gpu : answers.gpus) {
        if (gpu.address == address) gpu.free = bytes;
      }
    }
    if (kind != "gpu") continue;
    Gpu gpu;
    words >> gpu.address >> gpu.uuid >> gpu.memory >> gpu.capability >> std::ws;
    std::getline(words, gpu.name);
    answers.gpus.push_back(gpu);
  }
  return answers;
}

Gpu gpu_of(void* handle) {
  return answers().gpus.at(reinterpret_cast<std::size_t>(handle) - 1);
}

int copy(const std::string& text, char* to, unsigned size) {
  std::snprintf(to, size, "%s", text.c_str());
  return 0;
}

}  // namespace

struct nvmlMemory {
  unsigned long long total, free, used;
};

struct nvmlPciInfo {
  char legacy[16];
  unsigned domain, bus, device, ids, subsystem;
  char bus_id[32];
};

EXPORTED int nvmlInit_v2() {
  record(__func__);
  return answers().init;
}

EXPORTED int nvmlShutdown() {
  record(__func__);
  return 0;
}

EXPORTED const char* nvmlErrorString(int code) {
  return code == 18 ? "Driver/library version mismatch" : "another error";
}

EXPORTED int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  return copy(answers().driver, version, size);
}

EXPORTED int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(answers().gpus.size());
  return 0;
}

EXPORTED int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  record(__func__);
  *handle = reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1);
  return 0;
}

EXPORTED int nvmlDeviceGetName(void* handle, char* name, unsigned size) {
  return copy(gpu_of(handle).name, name, size);
}

EXPORTED int nvmlDeviceGetUUID(void* handle, char* uuid, unsigned size) {
  return copy(gpu_of(handle).uuid, uuid, size);
}

EXPORTED int nvmlDeviceGetPciInfo_v3(void* handle, void* pci) {
  auto* const info = static_cast<nvmlPciInfo*>(pci);
  return copy(gpu_of(handle).address, info->bus_id, sizeof info->bus_id);
}

EXPORTED int nvmlDeviceGetMemoryInfo(void* handle, void* memory) {
  *static_cast<nvmlMemory*>(memory) = {gpu_of(handle).memory, gpu_of(handle).free, 0};
  return 0;
}

EXPORTED int nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  *major = gpu_of(handle).capability / 10;
  *minor = gpu_of(handle).capability % 10;
  return 0;
}
