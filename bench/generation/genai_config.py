"""The settings that onnxruntime-genai reads beside a model."""


def genai_config(config, threads):
    """What onnxruntime-genai needs to know of a folder that `gpux import` made."""
    heads = config["num_attention_heads"]
    end = config["eos_token_id"]
    decoder = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": [], "intra_op_num_threads": threads},
        "filename": "model.onnx", "head_size": config.get("head_dim", config["hidden_size"] // heads), "hidden_size": config["hidden_size"],
        "num_attention_heads": heads, "num_hidden_layers": config["num_hidden_layers"],
        "num_key_value_heads": config["num_key_value_heads"],
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", "past_key_names": "past_key_values.%d.key",
                   "past_value_names": "past_key_values.%d.value"},
        "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}}
    return {"model": {"type": config["model_type"], "vocab_size": config["vocab_size"], "context_length": config["max_position_embeddings"],
                      "bos_token_id": config.get("bos_token_id", 0), "eos_token_id": end, "pad_token_id": end[0] if isinstance(end, list) else end,
                      "decoder": decoder},
            "search": {"do_sample": False, "max_length": config["max_position_embeddings"], "past_present_share_buffer": True}}
