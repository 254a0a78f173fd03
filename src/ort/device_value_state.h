#pragma once

#include <memory>

#include "ort/device_value.h"
#include "ort/session_state.h"

namespace gpux::ort {

struct DeviceValue::State {
  std::shared_ptr<const void> session;  // before the value, whose memory it may own
  CopyCounters* counters = nullptr;     // the session's
  const Staging* staging = nullptr;     // the session's; null: it has none
  Ort::Allocator allocator{nullptr};    // of uploaded values without staging
  StagedValue staged;                   // no value: `host` has it
  Tensor host;
  ElementType type = ElementType::undefined;
  Shape shape;
  std::size_t byte_size = 0;
  MemoryFacts memory;

  static DeviceValue of_host(Tensor tensor);
  static DeviceValue of_device(StagedValue&& staged, const Ort::ConstMemoryInfo& memory,
                               const std::shared_ptr<Session::State>& session,
                               Ort::Allocator&& allocator = Ort::Allocator{nullptr});
};

}  // namespace gpux::ort
