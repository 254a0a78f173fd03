#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/error.h"
#include "runtime/labels.h"
#include "runtime/scheduling/scheduler.h"
#include "server/browser_access.h"
#include "server/embed_job.h"
#include "server/http/server.h"
#include "server/request_work.h"
#include "server/service.h"
#include "server/text_ability.h"

/// What the parts of Service share.
namespace gpux::server {

struct OpenAiEmbeddings;
struct Rerank;

enum class Protocol : std::uint8_t {
  own,
  open_inference,
  openai,  ///< OpenAI's embeddings, completions and chats
  ollama,
  texts,  ///< Hugging Face's text-embeddings-inference
};

/// A request on its way through the service.
struct Service::Call {
  std::shared_ptr<http::Exchange> exchange;
  std::optional<std::string> name, version;  ///< of the path
  Protocol protocol = Protocol::own;
  RequestWork work;
  bool is_read_later = false;  ///< by the readers, and not on the thread that called handle()

  [[nodiscard]] const http::Request& request() const { return exchange->request(); }
};

struct Service::Route {
  RouteInfo info;
  Protocol protocol;
  void (Service::*handler)(const Call&);
  BodyKind body = BodyKind::json;  ///< what it reads
};

/// In the protocol's own shape and status.
http::Response error_response(const Error& error, Protocol protocol);

/// Where the request's time went, as fields of the answer.
void add_times(http::Response& response, const runtime::InferTimes& times,
               std::chrono::steady_clock::time_point arrived);

/// X-Request-Timeout-Ms, counted from the arrival. Error invalid_input.
std::optional<std::chrono::steady_clock::time_point> deadline_of(const http::Request& request);

/// {"ready", "live"} and what is not ready; 200 or 503.
void respond_readiness(http::Exchange& exchange, bool ready, const std::string& not_ready);

/// Whether a body of /predict is text-embeddings-inference's {"inputs": …}, and the model a classifier that has no
/// input of that name.
bool is_for_classifier(const ServedModel& model, std::string_view body);

/// Answers such a body.
void classify(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
              const std::shared_ptr<ServedModel>& model);

/// The labels of each row with their scores, or of the only one.
std::string rows_json(const std::vector<std::vector<runtime::LabelledScore>>& rows, bool is_list);

/// What the answer to a request for vectors is made of; may take what it needs.
using VectorsAnswer = std::function<http::Response(EmbedJobResult& result)>;

/// Answers with vectors of texts. `model` has an encoder. Errors as of make_embed_job().
void embed_texts(const std::shared_ptr<http::Exchange>& exchange, Protocol protocol, const RequestWork& work,
                 const std::shared_ptr<ServedModel>& model, std::vector<TextInput> texts, EmbedJobOptions options,
                 VectorsAnswer body);

/// The answer of POST /v1/embeddings.
http::Response openai_vectors_json(const std::vector<std::vector<float>>& vectors, std::size_t tokens,
                                   const std::string& model, bool base64);

/// Answers POST /v1/embeddings where there are images among the inputs. `model` is able to embed images, and texts
/// where there are some. Errors as of make_embed_job() and make_image_embed_job().
void embed_images(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                  const std::shared_ptr<ServedModel>& model, OpenAiEmbeddings asked);

/// Whether the body of /predict asks for the scores of labels for images, and the model has towers for that.
bool is_for_image_labels(const ServedModel& model, std::string_view body);

/// Answers such a body.
void label_images(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                  const std::shared_ptr<ServedModel>& model);

/// The answer of POST /rerank: texts by their scores, the highest first.
std::string ranking_json(const std::vector<float>& scores, const std::vector<std::string>& texts, bool return_text);

/// POST /rerank of a late-interaction model: texts by MaxSim; with raw_scores as it is, else by the number of the
/// query's tokens. Errors as of make_embed_job().
void rank_by_tokens(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                    const std::shared_ptr<ServedModel>& model, const importer::LateInteraction& late, Rerank asked);

/// Ends the work and what is pending of it when the client leaves.
void cancel_when_gone(http::Exchange& exchange, const RequestWork& work, std::function<void()> cancel = nullptr);

/// The memory that reading JSON takes, as RequestWork::hold() has it, where the text is long; null for a short one.
std::shared_ptr<MemoryShare> hold_for_reading(const RequestWork& work, std::string_view json,
                                              std::uint64_t bytes_a_value);

/// What a value of JSON takes at most as a string, a view of it or an element of a list; as a member of an object with
/// its name; as a number of a tensor.
inline constexpr std::uint64_t bytes_a_json_text = 40;
inline constexpr std::uint64_t bytes_a_json_member = 120;
inline constexpr std::uint64_t bytes_a_json_number = 8;

}  // namespace gpux::server
