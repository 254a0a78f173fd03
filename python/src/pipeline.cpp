#include <gpux/error.h>
#include <gpux/pipeline.h>

#include <memory>

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "loaded_pipeline.h"

namespace gpux::python {

namespace nb = nanobind;

void bind_pipeline(nb::module_& module) {
  nb::class_<LabelScore>(module, "LabelScore", "A label and its score.")
      .def_ro("label", &LabelScore::label)
      .def_ro("score", &LabelScore::score)
      .def("__repr__", [](const LabelScore& one) { return one.label + ": " + std::to_string(one.score); });
  nb::class_<RankedText>(module, "RankedText", "A text of a list, and how well it fits the query.")
      .def_ro("index", &RankedText::index)
      .def_ro("score", &RankedText::score)
      .def("__repr__",
           [](const RankedText& one) { return std::to_string(one.index) + ": " + std::to_string(one.score); });
  nb::class_<TextEntity>(module, "TextEntity", "Something named in a text.")
      .def_ro("label", &TextEntity::label)
      .def_ro("text", &TextEntity::text)
      .def_ro("score", &TextEntity::score)
      .def_ro("begin", &TextEntity::begin, "Index into the text.")
      .def_ro("end", &TextEntity::end, "Index behind its last character.")
      .def("__repr__", [](const TextEntity& one) { return one.label + ": " + one.text; });
  nb::class_<TextAnswer>(module, "TextAnswer", "A part of a context that answers a question.")
      .def_ro("text", &TextAnswer::text, "Empty: the context holds no answer.")
      .def_ro("score", &TextAnswer::score)
      .def_ro("begin", &TextAnswer::begin, "Index into the context.")
      .def_ro("end", &TextAnswer::end, "Index behind its last character.")
      .def("__repr__", [](const TextAnswer& one) { return one.text; });

  nb::class_<LoadedPipeline>(module, "LoadedPipeline", "A model that reads texts and judges them.")
      .def(nb::init<const std::string&, nb::dict>(), nb::arg("model"), nb::arg("settings"))
      .def("close", &LoadedPipeline::close)
      .def("classify", &LoadedPipeline::classify, nb::arg("texts"))
      .def("zero_shot", &LoadedPipeline::zero_shot, nb::arg("texts"), nb::arg("labels"), nb::arg("hypothesis_template"),
           nb::arg("multi_label"))
      .def("rank", &LoadedPipeline::rank, nb::arg("query"), nb::arg("texts"))
      .def("find_entities", &LoadedPipeline::find_entities, nb::arg("text"))
      .def("answer", &LoadedPipeline::answer, nb::arg("question"), nb::arg("context"))
      .def_prop_ro("task", [](const LoadedPipeline& pipeline) { return pipeline.opened()->task(); })
      .def_prop_ro("verdict", [](const LoadedPipeline& pipeline) { return pipeline.opened()->model().verdict(); });
}

}  // namespace gpux::python
