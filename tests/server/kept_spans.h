#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/telemetry/tracer.h"

namespace gpux::server {

/// What a tracer gives away: the spans of each request that has ended. Any thread.
class KeptSpans {
 public:
  [[nodiscard]] Tracer tracer(const Sampler& sampler = {}, bool reads_parent = true) {
    return {sampler, reads_parent, [this](std::vector<Span>&& spans) {
              const std::lock_guard lock(mutex_);
              requests_.push_back(std::move(spans));
            }};
  }

  [[nodiscard]] std::vector<std::vector<Span>> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::vector<Span>> requests_;
};

/// The value of that attribute; empty: it has none.
inline AttributeValue attribute_of(const Span& span, const std::string& name) {
  for (const Attribute& attribute : span.attributes) {
    if (attribute.name == name) return attribute.value;
  }
  return {};
}

}  // namespace gpux::server
