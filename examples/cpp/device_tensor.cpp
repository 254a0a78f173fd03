// Runs a model several times on one input that is copied to its device once: device_tensor MODEL.onnx
#include <gpux/device_tensor.h>
#include <gpux/error.h>
#include <gpux/runtime.h>

#include <iostream>
#include <vector>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  try {
    const gpux::Runtime model(arguments[1]);
    const std::vector<float> pixels(64, 8.0F);
    const gpux::DeviceTensor image = model.upload(gpux::Tensor::of<float>({1, 1, 8, 8}, pixels), "image");
    for (int run = 0; run < 3; ++run) {
      const gpux::NamedDeviceTensors outputs = model.infer_on_device({}, {{"image", image}});
      std::cout << outputs.front().first << (outputs.front().second.is_on_device() ? " on the device" : " on the host")
                << ": " << outputs.front().second.read().as<float>()[0] << '\n';
    }
    const gpux::TransferCounts counts = model.transfers();
    std::cerr << counts.to_device << " copies to the device, " << counts.from_device << " from it\n";
  } catch (const gpux::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
