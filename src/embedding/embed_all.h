#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "embedding/embed_times.h"
#include "embedding/embedder.h"

namespace gpux::embedding {

/// Puts the next text into its argument; false: there is none. Called by one thread at a time.
using TextSource = std::function<bool(std::string&)>;

/// Is given each text with its vector, in the order of the texts, by one thread at a time.
using VectorSink = std::function<void(std::string_view, std::span<const float>)>;

/// Is given each text with its embedding in any representation, as VectorSink.
using EmbeddingSink = std::function<void(std::string_view, const Embedding&)>;

/// Embeds the source's texts on `threads` threads (at least 1), of which the caller's is one, and gives their number.
/// Texts are read, and vectors held, only some for each thread ahead of the sink. The first text, in their order, that
/// fails ends it: the vectors before it have been given to the sink, and TextEmbedder::embed()'s error is thrown within
/// "text 3", counted from 1, or behind the `before` texts that were embedded earlier. What source and sink throw is
/// thrown as it is. `times`: added to, where it is not null.
std::uint64_t embed_all(const TextEmbedder& embedder, const EmbedOptions& options, const TextSource& source,
                        unsigned threads, const VectorSink& sink, std::uint64_t before = 0);
std::uint64_t embed_all(const TextEmbedder& embedder, const EmbedOptions& options, const TextSource& source,
                        unsigned threads, const EmbeddingSink& sink, std::uint64_t before = 0,
                        EmbedTimes* times = nullptr);

}  // namespace gpux::embedding
