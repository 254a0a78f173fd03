"""Tokenizers in the layouts of published decoders (normalizer, pre-tokenizer, byte fallback, decoder, template, added
tokens), with a small vocabulary that is trained on the documents of this repository. A module of scripts/references/generation-references.
"""

import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Words with letters of several scripts, signs of several code points, numbers and runs of spaces.
MORE_TEXTS = ["naïve façade Straße éèê", "漢字かな交じり文 한국어", "Привет, мир! مرحبا", "a  b   c\t\td\n\n e", "1234567890 3.14 0x7f",
              "def f(x):\n    return x*x  # I'm, you're, we'll, it's DON'T"]
# The patterns by which the tokenizers of Llama 3, Qwen 2, OLMo 2 (cl100k) and Phi-4-mini (o200k) cut texts.
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def corpus():
    return [path.read_text() for path in sorted(ROOT.glob("docs/*.md"))] + MORE_TEXTS * 20


def bytes_of(steps):
    """A byte-level pre-tokenizer behind the given steps; they cut the texts themselves where they have a pattern."""
    cuts = any(isinstance(step, pre_tokenizers.Split) for step in steps)
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not cuts)])


def byte_level(steps, specials, normalizer=None, ignore_merges=False, first=None, size=700):
    """Byte-level BPE. first: the special token that begins each text."""
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = bytes_of(steps)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.model.ignore_merges = ignore_merges
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in specials])
    plain = processors.ByteLevel(trim_offsets=False)
    if first:
        template = processors.TemplateProcessing(single=f"{first} $A", special_tokens=[(first, tokenizer.token_to_id(first))])
        tokenizer.post_processor = processors.Sequence([plain, template])
    else:
        tokenizer.post_processor = plain
    return tokenizer


def sentence_piece(specials, first, prepends, right_stripped=(), size=900):
    """BPE as SentencePiece's, with bytes for unknown letters. specials: what comes before the bytes, <unk> among them."""
    learner = Tokenizer(models.BPE())
    space = normalizers.Replace(" ", "▁")
    learner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), space]) if prepends else space
    if prepends:
        learner.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    else:
        learner.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    learner.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size - 256 - len(specials), show_progress=False,
                                                              limit_alphabet=120))
    learned = json.loads(learner.to_str())["model"]
    pieces = sorted(learned["vocab"], key=learned["vocab"].get)
    names = [*specials, *(f"<0x{byte:02X}>" for byte in range(256)), *(piece for piece in pieces if piece not in specials)]
    tokenizer = Tokenizer(models.BPE(vocab={name: place for place, name in enumerate(names)},
                                     merges=[tuple(merge) for merge in learned["merges"]], unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    tokenizer.normalizer = learner.normalizer
    if not prepends:
        tokenizer.pre_tokenizer = learner.pre_tokenizer
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if prepends else steps)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in specials])
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, rstrip=True, special=True) for text in right_stripped])
    template = f"{first} $A" if first else "$A"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(first, tokenizer.token_to_id(first))] if first else [])
    return tokenizer


def llama2():
    return sentence_piece(["<unk>", "<s>", "</s>"], "<s>", prepends=True)


def phi3():
    return sentence_piece(["<unk>", "<s>", "</s>"], None, prepends=True,
                          right_stripped=["<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>"])


def gemma():
    return sentence_piece(["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"], "<bos>", prepends=False)


def split(pattern):
    return [pre_tokenizers.Split(Regex(pattern), "isolated")]


def llama3():
    return byte_level(split(LLAMA3), ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], ignore_merges=True,
                      first="<|begin_of_text|>")


def qwen():
    return byte_level(split(QWEN2), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], normalizer=normalizers.NFC())


def gpt2():
    return byte_level([], ["<|endoftext|>"])


def digits():
    return byte_level([pre_tokenizers.Digits(individual_digits=True)], ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])


LAYOUTS = {
    "llama2": llama2, "mistral": llama2, "phi3": phi3, "phi3-narrow": phi3, "phi3-long": phi3, "gemma2": gemma, "gemma3": gemma,
    "llama3": llama3, "qwen2": qwen, "qwen2-windows": qwen, "qwen3": qwen, "gpt2": gpt2, "smollm2": digits, "granite": digits,
    "smollm3": lambda: byte_level(split(LLAMA3), ["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"],
                                  ignore_merges=True),
    "olmo2": lambda: byte_level(split(LLAMA3), ["<|endoftext|>", "<|endofprompt|>"]),
    "phi4-mini": lambda: byte_level(split(O200K), ["<|endoftext|>", "<|end|>", "<|user|>", "<|assistant|>"]),
}
