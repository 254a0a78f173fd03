// Every key that sentence-transformers 6.2 and transformers 5.24 write into the files beside a model: gpux reads it,
// refuses it by name, or it changes nothing there either. docs/settings-files.md has the same table.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "checkpoint/end_token.h"
#include "checkpoint/sentence_model.h"
#include "embedding/open_tokenizer.h"
#include "generation/chat_prompt.h"
#include "generation/model_files.h"
#include "gpux/error.h"
#include "pipeline/text_settings.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::HasSubstr;

enum class Handling : std::uint8_t { read, refused, unused };

/// The kinds of models whose folders the keys are in.
enum class Kind : std::uint8_t { encoder, dense, cross_encoder, splade, colbert, adapters, reranker, decoder };

struct Row {
  Kind kind;
  const char* file;
  const char* key;    ///< "model_kwargs.revision" is a member of a member; empty: the whole file
  const char* value;  ///< JSON that is not the default
  Handling handling;
  const char* note;  ///< what is read, what is accepted, or why it changes nothing
};

using Handling::read;
using Handling::refused;
using Handling::unused;

constexpr const char* sentences = "config_sentence_transformers.json";
constexpr const char* transformer = "sentence_bert_config.json";
constexpr const char* tokenizer = "tokenizer_config.json";
constexpr const char* config = "config.json";
constexpr const char* generation_config = "generation_config.json";
constexpr const char* pooling = "1_Pooling/config.json";
constexpr const char* dense = "2_Dense/config.json";
constexpr const char* normalize = "2_Normalize/config.json";
constexpr const char* splade_pooling = "1_SpladePooling/config.json";
constexpr const char* mask = "1_MultiVectorMask/config.json";
constexpr const char* logit_score = "1_LogitScore/config.json";

const std::vector<Row> rows{
    {Kind::encoder, "modules.json", "", R"([{"idx": 0, "name": "0", "path": "", "type": "a.Transformer"}])", read,
     "type and path of each module"},
    {Kind::encoder, "modules.json", "0.idx", "7", unused, "the order of the list counts"},
    {Kind::encoder, "modules.json", "0.name", R"("first")", unused, "a name in the library"},
    {Kind::encoder, "modules.json", "0.kwargs", R"(["task"])", unused, "arguments that callers may pass"},

    {Kind::colbert, sentences, "model_type", R"("ColBERT")", read, "which kind of model it is"},
    {Kind::encoder, sentences, "__version__", R"({"transformers": "9.9"})", unused, "versions of libraries"},
    {Kind::encoder, sentences, "requirements", R"({"transformers": ">=9"})", unused, "versions of libraries"},
    {Kind::encoder, sentences, "prompts", R"({"query": "q: "})", read, "texts to put before texts"},
    {Kind::encoder, sentences, "default_prompt_name", R"("document")", read, "the prompt without a request for one"},
    {Kind::cross_encoder, sentences, "default_prompt_name", R"("document")", read,
     "cross-encoders: before the first text of a pair"},
    {Kind::encoder, sentences, "similarity_fn_name", R"("dot")", read,
     "how `gpux search` compares: cosine, dot, euclidean, manhattan; meanmaxsim"},
    {Kind::encoder, sentences, "truncate_dim", "4", read, "the first dimensions alone, after all modules"},
    {Kind::splade, sentences, "max_active_dims", "4", read, "the largest weights alone"},
    {Kind::cross_encoder, sentences, "activation_fn", R"("torch.nn.modules.linear.Identity")", read,
     "Sigmoid, Identity, Tanh; others are refused"},
    {Kind::cross_encoder, sentences, "keep_in_fp32_modules", R"(["0.model"])", unused, "a precision of the library"},
    {Kind::colbert, sentences, "query_prefix", R"("[Q] ")", read, "PyLate"},
    {Kind::colbert, sentences, "document_prefix", R"("[D] ")", read, "PyLate"},
    {Kind::colbert, sentences, "query_length", "24", read, "PyLate"},
    {Kind::colbert, sentences, "document_length", "24", read, "PyLate"},
    {Kind::colbert, sentences, "query_expansion", R"({"strategy": "fixed", "length": 16})", read, "PyLate"},
    {Kind::colbert, sentences, "do_query_expansion", "true", read, "PyLate"},
    {Kind::colbert, sentences, "attend_to_expansion_tokens", "true", read, "PyLate"},
    {Kind::colbert, sentences, "skiplist_words", R"(["."])", read, "PyLate"},

    {Kind::encoder, transformer, "max_seq_length", "24", read, "takes precedence over model_max_length"},
    {Kind::encoder, transformer, "do_lower_case", "true", read, "a Lowercase before the normalizer, unless it has one"},
    {Kind::encoder, transformer, "transformer_task", R"("any-to-any")", refused,
     "accepted: feature-extraction, sequence-classification, text-generation, fill-mask"},
    {Kind::splade, transformer, "transformer_task", R"("feature-extraction")", refused,
     "a SpladePooling needs fill-mask"},
    {Kind::encoder, transformer, "modality_config.text.method", R"("get_audio_features")", refused,
     "accepted: forward, get_text_features"},
    {Kind::encoder, transformer, "modality_config.text.method_output_name", R"("hidden_states")", refused,
     "accepted: last_hidden_state, logits, pooler_output, sentence_embedding, text_embeds, token_embeddings"},
    {Kind::encoder, transformer, "modality_config.image",
     R"({"method": "get_image_features", "method_output_name": "pooler_output"})", unused,
     "texts have a modality of their own"},
    {Kind::encoder, transformer, "module_output_name", R"("audio")", refused,
     "accepted: causal_logits, scores, sentence_embedding, token_embeddings"},
    {Kind::encoder, transformer, "tokenizer_name_or_path", R"("another")", refused, "accepted: null"},
    {Kind::encoder, transformer, "processing_kwargs.text.max_length", "20", read,
     "takes precedence over max_seq_length"},
    {Kind::encoder, transformer, "processing_kwargs.common.max_length", "20", read,
     "takes precedence over max_seq_length"},
    {Kind::encoder, transformer, "processing_kwargs.text.truncation", "false", refused,
     "accepted: true, longest_first"},
    {Kind::encoder, transformer, "processing_kwargs.text.padding", R"("max_length")", refused,
     "accepted: true, false, longest"},
    {Kind::encoder, transformer, "processing_kwargs.text.add_special_tokens", "false", refused, "accepted: true"},
    {Kind::encoder, transformer, "processing_kwargs.text.stride", "4", refused,
     "accepted: null; also all members that are not named here"},
    {Kind::encoder, transformer, "processing_kwargs.text.pad_to_multiple_of", "8", unused,
     "padding changes no text's result"},
    {Kind::encoder, transformer, "processing_kwargs.image", R"({"size": 8})", unused, "not of texts"},
    {Kind::encoder, transformer, "processing_kwargs.chat_template.add_generation_prompt", "true", unused,
     "the templates of rerankers that are supported have no use for it"},
    {Kind::encoder, transformer, "processing_kwargs.chat_template.restore_suffix", "false", refused, "accepted: true"},
    {Kind::encoder, transformer, "processing_kwargs.chat_template.enable_thinking", "false", refused,
     "accepted: null; also all members that are not named here"},
    {Kind::encoder, transformer, "unpad_inputs", "true", unused, "how the library computes"},
    {Kind::colbert, transformer, "query_length", "24", read, "late interaction"},
    {Kind::colbert, transformer, "document_length", "24", read, "late interaction"},
    {Kind::colbert, transformer, "query_expansion", R"({"strategy": "fixed", "length": 16})", read, "late interaction"},
    {Kind::encoder, transformer, "query_length", "24", refused, "accepted without late interaction: null"},
    {Kind::encoder, transformer, "document_length", "24", refused, "accepted without late interaction: null"},
    {Kind::encoder, transformer, "query_expansion", R"({"length": 16})", refused,
     "accepted without late interaction: null"},
    {Kind::encoder, transformer, "processor_kwargs.model_max_length", "20", read,
     "takes precedence over max_seq_length"},
    {Kind::encoder, transformer, "tokenizer_args.model_max_length", "20", read, "the older name of processor_kwargs"},
    {Kind::encoder, transformer, "processor_kwargs.truncation_side", R"("left")", read,
     "takes precedence over tokenizer_config.json"},
    {Kind::encoder, transformer, "processor_kwargs.padding_side", R"("left")", unused,
     "padding changes no text's result"},
    {Kind::encoder, transformer, "processor_kwargs.add_eos_token", "true", refused,
     "accepted: null; also all members that are not named here"},
    {Kind::encoder, transformer, "config_kwargs.is_decoder", "true", refused,
     "accepted: null; also all members that do not say where files come from"},
    {Kind::encoder, transformer, "config_args.is_decoder", "true", refused, "the older name of config_kwargs"},
    {Kind::encoder, transformer, "config_kwargs.revision", R"("main")", unused, "where files come from"},
    {Kind::adapters, transformer, "model_kwargs.default_task", R"("retrieval.query")", read,
     "the adapter of texts without a task"},
    {Kind::adapters, transformer, "model_args.default_task", R"("retrieval.query")", read,
     "the older name of model_kwargs"},
    {Kind::encoder, transformer, "model_kwargs.num_hidden_layers", "2", refused,
     "accepted: null; also all members that do not say how to load the model"},
    {Kind::encoder, transformer, "model_kwargs.attn_implementation", R"("eager")", unused, "how the library computes"},
    {Kind::encoder, "sentence_roberta_config.json", "max_seq_length", "24", read,
     "as sentence_bert_config.json, if that is not there"},
    {Kind::encoder, "sentence_distilbert_config.json", "max_seq_length", "24", read, "the same"},
    {Kind::encoder, "sentence_camembert_config.json", "max_seq_length", "24", read, "the same"},
    {Kind::encoder, "sentence_albert_config.json", "max_seq_length", "24", read, "the same"},
    {Kind::encoder, "sentence_xlm-roberta_config.json", "max_seq_length", "24", read, "the same"},
    {Kind::encoder, "sentence_xlnet_config.json", "max_seq_length", "24", read, "the same"},

    {Kind::encoder, pooling, "pooling_mode", R"("cls")", read,
     "cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken, or several"},
    {Kind::encoder, pooling, "pooling_mode_cls_token", "true", read,
     "the older form, as pooling_mode_max_tokens and so on"},
    {Kind::encoder, pooling, "include_prompt", "false", read, "whether the prompt's tokens count"},
    {Kind::encoder, pooling, "embedding_dimension", "4", unused, "the graph has it"},
    {Kind::encoder, pooling, "word_embedding_dimension", "4", unused, "the graph has it"},
    {Kind::dense, dense, "in_features", "3", refused, "what the weights have"},
    {Kind::dense, dense, "out_features", "3", refused, "what the weights have"},
    {Kind::dense, dense, "bias", "true", refused, "what the weights have"},
    {Kind::dense, dense, "activation_function", R"("torch.nn.modules.activation.ReLU")", read,
     "Identity, Tanh, ReLU, GELU, SiLU, Sigmoid; others are refused"},
    {Kind::dense, dense, "module_input_name", R"("token_embeddings")", refused,
     "accepted: sentence_embedding; token_embeddings in late interaction"},
    {Kind::dense, dense, "module_output_name", R"("other")", refused,
     "accepted: sentence_embedding; token_embeddings in late interaction"},
    {Kind::dense, dense, "use_residual", "true", refused, "accepted: false"},
    {Kind::encoder, normalize, "module_input_name", R"("token_embeddings")", refused,
     "accepted: sentence_embedding; token_embeddings in late interaction"},
    {Kind::encoder, normalize, "module_output_name", R"("other")", refused,
     "accepted: sentence_embedding; token_embeddings in late interaction"},
    {Kind::splade, splade_pooling, "pooling_strategy", R"("sum")", read, "max, sum"},
    {Kind::splade, splade_pooling, "activation_function", R"("log1p_relu")", read, "relu, log1p_relu"},
    {Kind::splade, splade_pooling, "embedding_dimension", "4", unused, "the graph has it"},
    {Kind::colbert, mask, "skiplist_words", R"(["."])", read, "tokens whose vectors do not count"},
    {Kind::colbert, mask, "skiplist_tasks", R"(["query"])", read, "of queries, of documents"},
    {Kind::colbert, mask, "keep_only_token_ids", "[1]", refused, "accepted: null"},
    {Kind::reranker, logit_score, "true_token_id", "9", unused, "the graph has the score; gpux import reads it"},
    {Kind::reranker, logit_score, "false_token_id", "9", unused, "the graph has the score; gpux import reads it"},
    {Kind::reranker, logit_score, "module_input_name", R"("other")", refused, "accepted: causal_logits"},

    {Kind::encoder, tokenizer, "tokenizer_class", R"("BertTokenizer")", read, "which settings below count"},
    {Kind::encoder, tokenizer, "model_max_length", "20", read, "without max_seq_length"},
    {Kind::encoder, tokenizer, "max_len", "20", read, "the older name of model_max_length"},
    {Kind::encoder, tokenizer, "truncation_side", R"("left")", read, ""},
    {Kind::encoder, tokenizer, "model_input_names", R"(["input_ids", "attention_mask"])", read,
     "without token_type_ids the model gets zeros"},
    {Kind::encoder, tokenizer, "split_special_tokens", "true", read, ""},
    {Kind::encoder, tokenizer, "added_tokens_decoder", R"({"1500": {"content": "cat", "special": false}})", read,
     "tokens that tokenizer.json does not have, or has otherwise"},
    {Kind::encoder, tokenizer, "extra_special_tokens", R"(["the"])", read, "tokens of the vocabulary that are special"},
    {Kind::encoder, tokenizer, "additional_special_tokens", R"(["the"])", read, "the older name"},
    {Kind::encoder, tokenizer, "bos_token", R"("the")", read, "special; also in chat templates"},
    {Kind::encoder, tokenizer, "eos_token", R"("the")", read, "special; also in chat templates"},
    {Kind::encoder, tokenizer, "unk_token", R"("the")", read, "special; also in chat templates"},
    {Kind::encoder, tokenizer, "sep_token", R"("the")", read, "special; also in chat templates"},
    {Kind::encoder, tokenizer, "pad_token", R"("the")", read, "special; also in chat templates"},
    {Kind::encoder, tokenizer, "cls_token", R"("the")", read, "special; also in chat templates"},
    {Kind::encoder, tokenizer, "mask_token", R"("the")", read, "special; also in chat templates"},
    {Kind::encoder, tokenizer, "do_lower_case", "true", unused, "of classes with a normalizer of their own alone"},
    {Kind::encoder, "tokenizer_config.json (BertTokenizer)", "do_lower_case", "false", read,
     "BertTokenizer and its kin; default true"},
    {Kind::encoder, "tokenizer_config.json (BertTokenizer)", "strip_accents", "true", read,
     "the same; default as do_lower_case"},
    {Kind::encoder, "tokenizer_config.json (BertTokenizer)", "tokenize_chinese_chars", "false", read,
     "the same; default true"},
    {Kind::encoder, "tokenizer_config.json (AlbertTokenizer)", "do_lower_case", "true", refused,
     "AlbertTokenizer, DebertaV2Tokenizer, XLNetTokenizer: accepted as the normalizer of tokenizer.json has it"},
    {Kind::decoder, "tokenizer_config.json (GPT2Tokenizer)", "add_prefix_space", "true", read,
     "GPT2Tokenizer, RobertaTokenizer and their kin"},
    {Kind::encoder, tokenizer, "add_prefix_space", "true", unused, "tokenizer.json has it"},
    {Kind::decoder, tokenizer, "add_eos_token", "true", read, "by gpux import"},
    {Kind::decoder, tokenizer, "chat_template", R"("{{ messages }}")", read, "without chat_template.jinja"},
    {Kind::encoder, tokenizer, "add_bos_token", "true", unused, "tokenizer.json has it"},
    {Kind::encoder, tokenizer, "padding_side", R"("left")", unused, "padding changes no text's result"},
    {Kind::encoder, tokenizer, "pad_token_type_id", "1", unused, "padding changes no text's result"},
    {Kind::encoder, tokenizer, "pad_to_multiple_of", "8", unused, "padding changes no text's result"},
    {Kind::encoder, tokenizer, "max_length", "4", unused, "of tokenizer.json, which does not count"},
    {Kind::encoder, tokenizer, "stride", "2", unused, "of tokenizer.json, which does not count"},
    {Kind::encoder, tokenizer, "truncation_strategy", R"("only_first")", unused,
     "of tokenizer.json, which does not count"},
    {Kind::encoder, tokenizer, "trim_offsets", "false", unused, "offsets alone"},
    {Kind::encoder, tokenizer, "clean_up_tokenization_spaces", "true", unused, "the decoder of tokenizer.json counts"},
    {Kind::encoder, tokenizer, "spaces_between_special_tokens", "true", unused, "of tokenizers without tokenizer.json"},
    {Kind::encoder, tokenizer, "fix_mistral_regex", "true", unused, "tokenizer.json is saved with it"},
    {Kind::encoder, tokenizer, "errors", R"("ignore")", unused, "of decoded bytes"},
    {Kind::encoder, tokenizer, "legacy", "false", unused, "tokenizer.json has it"},
    {Kind::encoder, tokenizer, "sp_model_kwargs", R"({"a": 1})", unused, "of tokenizers without tokenizer.json"},
    {Kind::encoder, tokenizer, "do_basic_tokenize", "false", unused, "of tokenizers without tokenizer.json"},
    {Kind::encoder, tokenizer, "never_split", R"(["a"])", unused, "of tokenizers without tokenizer.json"},
    {Kind::encoder, tokenizer, "model_specific_special_tokens", R"({"image_token": "the"})", unused, "not of texts"},
    {Kind::encoder, tokenizer, "response_template", R"({"a": 1})", unused, "gpux reads answers by itself"},
    {Kind::encoder, tokenizer, "chat_control_tokens", R"(["the"])", unused, "gpux reads answers by itself"},
    {Kind::encoder, tokenizer, "init_inputs", R"(["a"])", unused, "arguments of the class"},
    {Kind::encoder, tokenizer, "auto_map", R"({"AutoTokenizer": "a.B"})", unused, "code is not run"},
    {Kind::encoder, tokenizer, "processor_class", R"("P")", unused, "a class of the library"},
    {Kind::encoder, tokenizer, "backend", R"("tokenizers")", unused, "a class of the library"},
    {Kind::encoder, tokenizer, "is_local", "true", unused, "where files come from"},
    {Kind::encoder, tokenizer, "local_files_only", "true", unused, "where files come from"},
    {Kind::encoder, "special_tokens_map.json", "cls_token", R"("the")", read,
     "without added_tokens_decoder; the keys of special tokens"},
    {Kind::encoder, "added_tokens.json", "cat", "1500", read, "without added_tokens_decoder"},

    {Kind::encoder, config, "architectures", R"(["BertForTokenClassification"])", read, "the task"},
    {Kind::encoder, config, "model_type", R"("mpnet")", read, "the family"},
    {Kind::encoder, config, "vocab_size", "7", read, "texts with other tokens are refused"},
    {Kind::encoder, config, "max_position_embeddings", "16", read, "the maximum, unless positions are computed"},
    {Kind::encoder, config, "pad_token_id", "4", read, ""},
    {Kind::encoder, config, "tokenizer_class", R"("BertTokenizerFast")", read, "without that of tokenizer_config.json"},
    {Kind::cross_encoder, config, "id2label", R"({"0": "a", "1": "b"})", read, ""},
    {Kind::cross_encoder, config, "num_labels", "1", read, "without id2label"},
    {Kind::cross_encoder, config, "label2id", R"({"a": 0})", unused, "id2label says the same"},
    {Kind::cross_encoder, config, "problem_type", R"("regression")", read, "what makes scores of logits"},
    {Kind::cross_encoder, config, "sentence_transformers.activation_fn", R"("torch.nn.modules.linear.Identity")", read,
     "the form before version 6"},
    {Kind::cross_encoder, config, "sbert_ce_default_activation_function", R"("torch.nn.modules.linear.Identity")", read,
     "the form before version 4"},
    {Kind::adapters, config, "lora_adaptations", R"(["other"])", read, "the names of adapters"},
    {Kind::adapters, config, "task_instructions", R"({"retrieval.query": "q: "})", read, "prompts of adapters"},
    {Kind::encoder, config, "transformers_version", R"("9")", unused, "versions of libraries"},
    {Kind::encoder, config, "dtype", R"("float16")", unused, "the graph, or the weights, have it"},
    {Kind::encoder, config, "torch_dtype", R"("float16")", unused, "the older name"},
    {Kind::encoder, config, "output_hidden_states", "true", unused, "outputs of the library"},
    {Kind::encoder, config, "output_attentions", "true", unused, "outputs of the library"},
    {Kind::encoder, config, "return_dict", "false", unused, "outputs of the library"},
    {Kind::encoder, config, "chunk_size_feed_forward", "8", unused, "how the library computes"},
    {Kind::encoder, config, "use_cache", "false", unused, "how the library computes"},

    {Kind::decoder, generation_config, "eos_token_id", "[7]", read, "ends a text"},
    {Kind::decoder, generation_config, "do_sample", "false", read, ""},
    {Kind::decoder, generation_config, "temperature", "0.5", read, "with do_sample"},
    {Kind::decoder, generation_config, "top_k", "7", read,
     "with do_sample; if absent, all tokens count (transformers: 50)"},
    {Kind::decoder, generation_config, "top_p", "0.5", read, "with do_sample"},
    {Kind::decoder, generation_config, "min_p", "0.5", read, "with do_sample"},
    {Kind::decoder, generation_config, "typical_p", "0.5", read, "with do_sample"},
    {Kind::decoder, generation_config, "repetition_penalty", "1.5", read, ""},
    {Kind::decoder, generation_config, "epsilon_cutoff", "0.5", refused, "accepted with do_sample: null, 0"},
    {Kind::decoder, generation_config, "eta_cutoff", "0.5", refused, "accepted with do_sample: null, 0"},
    {Kind::decoder, generation_config, "top_h", "0.5", refused, "accepted with do_sample: null, 0"},
    {Kind::decoder, generation_config, "num_beams", "4", refused, "accepted: null, 1"},
    {Kind::decoder, generation_config, "num_beam_groups", "4", refused, "accepted: null, 1"},
    {Kind::decoder, generation_config, "diversity_penalty", "0.5", refused, "accepted: null, 0"},
    {Kind::decoder, generation_config, "penalty_alpha", "0.5", refused, "accepted: null, 0"},
    {Kind::decoder, generation_config, "dola_layers", R"("low")", refused, "accepted: null"},
    {Kind::decoder, generation_config, "no_repeat_ngram_size", "3", refused, "accepted: null, 0"},
    {Kind::decoder, generation_config, "encoder_no_repeat_ngram_size", "3", refused, "accepted: null, 0"},
    {Kind::decoder, generation_config, "encoder_repetition_penalty", "1.5", refused, "accepted: null, 1"},
    {Kind::decoder, generation_config, "min_length", "3", refused, "accepted: null, 0"},
    {Kind::decoder, generation_config, "min_new_tokens", "3", refused, "accepted: null, 0"},
    {Kind::decoder, generation_config, "guidance_scale", "2", refused, "accepted: null, 1"},
    {Kind::decoder, generation_config, "bad_words_ids", "[[3]]", refused, "accepted: null"},
    {Kind::decoder, generation_config, "force_words_ids", "[[3]]", refused, "accepted: null"},
    {Kind::decoder, generation_config, "constraints", R"(["a"])", refused, "accepted: null"},
    {Kind::decoder, generation_config, "sequence_bias", "[[[3], 1.0]]", refused, "accepted: null"},
    {Kind::decoder, generation_config, "suppress_tokens", "[3]", refused, "accepted: null"},
    {Kind::decoder, generation_config, "begin_suppress_tokens", "[3]", refused, "accepted: null"},
    {Kind::decoder, generation_config, "forced_bos_token_id", "3", refused, "accepted: null"},
    {Kind::decoder, generation_config, "forced_eos_token_id", "3", refused, "accepted: null"},
    {Kind::decoder, generation_config, "exponential_decay_length_penalty", "[3, 1.1]", refused, "accepted: null"},
    {Kind::decoder, generation_config, "stop_strings", R"(["end"])", refused, "accepted: null"},
    {Kind::decoder, generation_config, "token_healing", "true", refused, "accepted: null, false"},
    {Kind::decoder, generation_config, "watermarking_config", R"({"seeding_scheme": "a"})", refused, "accepted: null"},
    {Kind::decoder, generation_config, "max_length", "20", unused, "callers set the maximum number of tokens"},
    {Kind::decoder, generation_config, "max_new_tokens", "20", unused, "callers set the maximum number of tokens"},
    {Kind::decoder, generation_config, "max_time", "2", unused, "callers say how long it may take"},
    {Kind::decoder, generation_config, "length_penalty", "2", unused, "of beams"},
    {Kind::decoder, generation_config, "early_stopping", "true", unused, "of beams"},
    {Kind::decoder, generation_config, "num_return_sequences", "2", unused, "callers say how many texts they get"},
    {Kind::decoder, generation_config, "bos_token_id", "3", unused, "tokenizer.json puts it before a text"},
    {Kind::decoder, generation_config, "pad_token_id", "3", unused, "texts are not padded"},
    {Kind::decoder, generation_config, "decoder_start_token_id", "3", unused,
     "of encoder-decoder models, which are not supported"},
    {Kind::decoder, generation_config, "renormalize_logits", "true", unused, "probabilities are always normalized"},
    {Kind::decoder, generation_config, "remove_invalid_values", "true", unused, "NaN is refused"},
    {Kind::decoder, generation_config, "use_cache", "false", unused, "how the library computes"},
    {Kind::decoder, generation_config, "cache_implementation", R"("static")", unused,
     "as cache_config, max_cache_len, low_memory, compile_config, disable_compile, prefill_chunk_size, "
     "continuous_batching_config: how the library computes"},
    {Kind::decoder, generation_config, "prompt_lookup_num_tokens", "3", unused,
     "as assistant_…, num_assistant_tokens, is_assistant, target_lookbehind, max_matching_ngram_size, "
     "speculation_type, use_mtp: guesses of tokens that are checked"},
    {Kind::decoder, generation_config, "output_scores", "true", unused,
     "as output_logits, output_attentions, output_hidden_states, return_dict_in_generate: outputs of the library"},
    {Kind::decoder, generation_config, "transformers_version", R"("9")", unused, "versions of libraries"},
};

using Files = std::map<std::string, Json>;

Json wordpiece() {
  return Json::parse(read_file(GPUX_SOURCE_DIR "/tests/text/data/wordpiece.json"));
}

Json modules_of(const std::vector<std::pair<std::string, std::string>>& modules) {
  Json list = Json::array();
  for (const auto& [type, path] : modules) {
    list.push_back(
        {{"idx", list.size()}, {"name", std::to_string(list.size())}, {"path", path}, {"type", "a." + type}});
  }
  return list;
}

Files base_of(Kind kind) {
  Files files{
      {"tokenizer.json", wordpiece()},
      {config,
       {{"model_type", "bert"},
        {"architectures", {"BertModel"}},
        {"vocab_size", 1500},
        {"max_position_embeddings", 64}}},
      {tokenizer, {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"model_max_length", 40}}},
      {sentences, {{"prompts", {{"document", "passage: "}}}, {"default_prompt_name", nullptr}}},
      {"modules.json", modules_of({{"Transformer", ""}, {"Pooling", "1_Pooling"}, {"Normalize", "2_Normalize"}})},
      {pooling, {{"pooling_mode_mean_tokens", true}}}};
  switch (kind) {
    case Kind::encoder:
      break;
    case Kind::dense:
      files["modules.json"] = modules_of({{"Transformer", ""}, {"Pooling", "1_Pooling"}, {"Dense", "2_Dense"}});
      files[dense] = {{"in_features", 2},
                      {"out_features", 1},
                      {"bias", false},
                      {"activation_function", "torch.nn.modules.linear.Identity"}};
      break;
    case Kind::cross_encoder:
      files["modules.json"] = modules_of({{"Transformer", ""}});
      files[config]["architectures"] = {"BertForSequenceClassification"};
      files[config]["num_labels"] = 1;
      break;
    case Kind::splade:
      files["modules.json"] = modules_of({{"Transformer", ""}, {"SpladePooling", "1_SpladePooling"}});
      files[transformer] = {{"transformer_task", "fill-mask"}};
      files[splade_pooling] = {{"pooling_strategy", "max"}};
      break;
    case Kind::colbert:
      files["modules.json"] = modules_of({{"Transformer", ""}, {"MultiVectorMask", "1_MultiVectorMask"}});
      files[sentences]["model_type"] = "MultiVectorEncoder";
      files[mask] = {{"skiplist_words", {","}}};
      break;
    case Kind::adapters:
      files[config]["lora_adaptations"] = {"separation", "retrieval.query"};
      break;
    case Kind::reranker:
      files["modules.json"] = modules_of({{"Transformer", ""}, {"LogitScore", "1_LogitScore"}});
      files[logit_score] = {{"true_token_id", 3}};
      break;
    case Kind::decoder:
      files.erase("modules.json");
      files["tokenizer.json"]["pre_tokenizer"] = {
          {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
      files[tokenizer]["eos_token"] = "[MASK]";
      files[tokenizer]["chat_template"] = "{{ bos_token }}";
      files[generation_config] = {{"do_sample", true}};
      break;
  }
  return files;
}

// Float32 of [1, 2], as a .safetensors file.
std::string dense_weights() {
  const std::string header = R"({"linear.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(8, '\0');
}

// All that is read of a folder, as text.
std::string seen_in(const Files& files) {
  const test::TemporaryFolder folder;
  for (const auto& [name, json] : files) folder.write(name, json.dump());
  if (files.contains(dense)) folder.write("2_Dense/model.safetensors", dense_weights());
  const checkpoint::SentenceModel model = checkpoint::read_sentence_settings(folder.path());
  std::string seen;
  for (const Pooling one : model.poolings) seen += fmt::format("pooling {}\n", static_cast<int>(one));
  for (const checkpoint::DenseLayer& layer : model.dense)
    seen += fmt::format("dense {}\n", static_cast<int>(layer.activation));
  seen += fmt::format("{} {} {} {} {} {} {} {} {} {} {}\n", model.declares_pooling, model.pools_prompt, model.normalize,
                      model.max_tokens, model.truncate_left, model.first_position, model.padding_token,
                      model.has_token_types, model.architecture, model.vocabulary, model.scores_pairs);
  seen += fmt::format("{} {} {}\n", model.dimensions, model.sparse_top_k,
                      model.similarity ? static_cast<int>(*model.similarity) : -1);
  seen +=
      fmt::format("{} '{}' {} {}\n", model.prompts, model.default_prompt, model.tasks, model.default_task.value_or(99));
  if (model.splade)
    seen += fmt::format("{} {}\n", static_cast<int>(model.splade->strategy), model.splade->has_second_log);
  if (const auto& late = model.late_interaction) {
    seen += fmt::format("'{}' '{}' {} {} {} {} {} {} {} {}\n", late->query_prompt, late->document_prompt,
                        late->has_markers, late->query_tokens, late->document_tokens, late->skipped_words,
                        late->skips_in_documents, late->skips_in_queries, late->is_mean, late->normalize);
    if (late->expansion) seen += fmt::format("{} {}\n", late->expansion->length, late->expansion->is_attended);
  }
  Signature signature;
  SignatureEntry& ids = signature.inputs.emplace_back();
  ids.name = "input_ids";
  ids.type = {.kind = ValueKind::tensor, .element = ElementType::int64, .dimensions = std::vector<Dimension>(2)};
  const auto text = pipeline::read_text_settings(folder.path() / "model.onnx", nullptr, signature);
  if (text) {
    seen += fmt::format("{} {} {} {} {} {} '{}' {} {}\n", static_cast<int>(text->task), text->max_tokens,
                        text->truncate_left, text->labels, static_cast<int>(text->activation),
                        static_cast<int>(text->ranking), text->prompt, text->has_token_types, text->padding_token);
  }
  const text::Tokenizer opened = embedding::open_tokenizer(folder.path() / "tokenizer.json");
  for (const char* sample : {"The Cat sat, the cat", "[MASK] caf\u00e9s", "\u4e2d\u6587 the"}) {
    const text::Encoding encoding = opened.encode(sample);
    seen += fmt::format("{}\n", std::vector<std::uint32_t>(encoding.ids().begin(), encoding.ids().end()));
    seen += opened.decode(encoding.ids()) + "\n";
  }
  if (const auto templates = generation::read_chat_templates(folder.path())) {
    seen += fmt::format("{} {}\n", templates->usual, templates->special_tokens);
  }
  if (files.contains(generation_config)) {
    const generation::ModelFiles decoder = generation::read_model_files(folder.path());
    const generation::Sampling& sampling = decoder.defaults.sampling;
    seen += fmt::format("{} {} {} {} {} {} {} {}\n", decoder.context_length, decoder.defaults.end_tokens,
                        sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p, sampling.typical_p,
                        sampling.repetition_penalty);
    const auto ended =
        checkpoint::with_end_token(files.at("tokenizer.json").dump(), JsonSettings(folder.path() / tokenizer));
    seen += fmt::format("{}\n", ended.has_value());
  }
  return seen;
}

Json& member_of(Json& json, std::string key) {
  std::ranges::replace(key, '.', '/');
  return key.empty() ? json : json[Json::json_pointer("/" + key)];
}

// The base with the row's class of tokenizer, and the file that has the key.
std::pair<Files, std::string> base_of(const Row& row) {
  Files files = base_of(row.kind);
  std::string file = row.file;
  if (const std::size_t at = file.find(" ("); at != std::string::npos) {
    const std::string name = file.substr(at + 2, file.size() - at - 3);
    file.resize(at);
    files[file]["tokenizer_class"] = name;
  }
  // A class whose defaults differ from what tokenizer.json has.
  const bool is_class = std::string_view(row.key) == "tokenizer_class";
  if (is_class) {
    files["tokenizer.json"]["normalizer"]["lowercase"] = false;
    if (file == config) files[tokenizer].erase("tokenizer_class");
  }
  if (std::string_view(row.key) == "do_lower_case" && file == transformer) {
    files["tokenizer.json"]["normalizer"]["lowercase"] = false;
  }
  if (std::string_view(row.key) == "max_len") files[file].erase("model_max_length");
  if (std::string_view(row.key) == "strip_accents") files[file]["do_lower_case"] = false;
  if (std::string_view(row.key) == "num_labels") files[file].erase("num_labels");
  return {files, file};
}

TEST(SettingsFiles, AreReadOrRefusedKeyByKey) {
  std::map<Files, std::string> bases;
  for (const Row& row : rows) {
    SCOPED_TRACE(fmt::format("{}: {}", row.file, row.key));
    auto [files, file] = base_of(row);
    std::string& before = bases[files];
    if (before.empty()) before = seen_in(files);
    if (!files.contains(file)) files[file] = Json::object();
    member_of(files[file], row.key) = Json::parse(row.value);
    try {
      const std::string after = seen_in(files);
      EXPECT_NE(row.handling, Handling::refused) << "it was not refused";
      if (row.handling == Handling::read) {
        EXPECT_NE(after, before) << "it was not read";
      } else {
        EXPECT_EQ(after, before) << "it was read";
      }
    } catch (const Error& error) {
      EXPECT_EQ(row.handling, Handling::refused) << error.message();
      EXPECT_EQ(error.code(), ErrorCode::invalid_model);
      const std::string key(row.key);
      // The weights of a Dense say what they have; a SpladePooling, which model it needs.
      const bool names_other = row.file == dense || (row.kind == Kind::splade && file == transformer);
      if (!names_other) {
        EXPECT_THAT(error.message(), HasSubstr(key.substr(key.rfind('.') + 1)));
      }
    }
  }
}

std::string line_of(const Row& row) {
  const char* handling = row.handling == Handling::read      ? "read"
                         : row.handling == Handling::refused ? "refused"
                                                             : "no effect";
  std::string_view file = row.file;
  file = file.substr(0, file.find(" ("));
  return fmt::format("| `{}` | {} | {} | {} |", file, *row.key == '\0' ? "" : fmt::format("`{}`", row.key), handling,
                     row.note);
}

TEST(SettingsFiles, AreInTheDocument) {
  std::string expected;
  for (const Row& row : rows) expected += line_of(row) + "\n";
  const std::string document = read_file(GPUX_SOURCE_DIR "/docs/settings-files.md");
  const std::string head = "|---|---|---|---|\n";
  const std::size_t begin = document.find(head);
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(document.substr(begin + head.size()), expected);
}

}  // namespace
}  // namespace gpux
