#include "generation/stop_texts.h"

#include <algorithm>
#include <utility>

namespace gpux::generation {

StopTexts::StopTexts(std::vector<std::string> texts) {
  for (std::string& text : texts) {
    Stop stop{.text = std::move(text), .borders = {0}, .matched = 0};
    for (std::size_t i = 1; i < stop.text.size(); ++i) {
      stop.borders.push_back(static_cast<std::uint32_t>(next_matched(stop, stop.borders.back(), stop.text[i])));
    }
    stops_.push_back(std::move(stop));
  }
  comparisons_ = 0;
}

std::size_t StopTexts::next_matched(const Stop& stop, std::size_t matched, char byte) {
  while (++comparisons_, stop.text[matched] != byte) {
    if (matched == 0) return 0;
    matched = stop.borders[matched - 1];
  }
  return matched + 1;
}

std::optional<StopTexts::Found> StopTexts::add(std::string_view piece) {
  std::optional<Found> first;
  const auto begins_after = [&](std::size_t index, std::size_t end) {
    return first && end + stops_[first->text].text.size() >= first->end + stops_[index].text.size();
  };
  for (std::size_t index = 0; index < stops_.size(); ++index) {
    Stop& stop = stops_[index];
    for (std::size_t i = 0; i < piece.size(); ++i) {
      stop.matched = next_matched(stop, stop.matched, piece[i]);
      if (stop.matched < stop.text.size()) continue;
      stop.matched = stop.borders.back();
      if (!begins_after(index, i + 1)) first = Found{index, i + 1};
    }
  }
  return first;
}

std::size_t StopTexts::held() const noexcept {
  std::size_t most = 0;
  for (const Stop& stop : stops_) most = std::max(most, stop.matched);
  return most;
}

}  // namespace gpux::generation
