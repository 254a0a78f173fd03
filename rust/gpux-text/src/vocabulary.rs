//! The bytes that each token of a tokenizer stands for, as llguidance walks them.

use std::collections::HashSet;

use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, INVALID_TOKEN};
use llguidance::{earley::SlicedBiasComputer, ParserFactory};
use tokenizers::{DecoderWrapper, Tokenizer};

use crate::Outcome;

/// toktrie's own limits: 24 bits for a token, 1,024 levels of its tree.
const MAX_TOKENS: usize = 1 << 23;
const MAX_TOKEN_BYTES: usize = 1000;

/// The tokens of a model, and what constraints of all its requests share.
pub struct Vocabulary {
    pub factory: ParserFactory,
    /// The decoder removes one space from the beginning of a text.
    pub strips_space: bool,
    /// Tokens that a text cannot begin with: what they are decoded to there is neither their bytes nor those without a
    /// space.
    pub never_first: Vec<u32>,
    /// Tokens whose bytes begin with a space.
    pub with_space: Vec<u32>,
    /// Tokens there are logits for.
    pub logits: usize,
}

/// How a decoder spells tokens.
#[derive(Default)]
struct Spelling {
    is_byte_level: bool,
    has_byte_tokens: bool,
    spaces: Vec<char>,
}

impl Spelling {
    fn read(&mut self, decoder: &DecoderWrapper) -> Outcome<()> {
        let refused = |name: &str| {
            Err(format!("its decoder is {name}, which spells a token by its neighbours; accepted: byte-level BPE, and sentencepiece").into())
        };
        match decoder {
            DecoderWrapper::ByteLevel(_) => self.is_byte_level = true,
            DecoderWrapper::ByteFallback(_) => self.has_byte_tokens = true,
            DecoderWrapper::Metaspace(metaspace) => self.spaces.push(metaspace.get_replacement()),
            DecoderWrapper::Replace(replace) => {
                let replace = serde_json::to_value(replace)?;
                let mut pattern = replace["pattern"]["String"].as_str().unwrap_or_default().chars();
                if let (Some(space), None, Some(" ")) = (pattern.next(), pattern.next(), replace["content"].as_str()) {
                    self.spaces.push(space);
                }
            }
            DecoderWrapper::Sequence(sequence) => {
                for part in sequence.get_decoders() {
                    self.read(part)?;
                }
            }
            // Whether what these do concerns tokens inside a text is checked afterwards.
            DecoderWrapper::Fuse(_) | DecoderWrapper::Strip(_) => {}
            DecoderWrapper::WordPiece(_) => return refused("WordPiece"),
            DecoderWrapper::BPE(_) => return refused("BPEDecoder"),
            DecoderWrapper::CTC(_) => return refused("CTC"),
        }
        Ok(())
    }

    fn bytes(&self, token: &str) -> Vec<u8> {
        if self.is_byte_level {
            let bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
            return bytes.unwrap_or_else(|| token.as_bytes().to_vec());
        }
        if self.has_byte_tokens && token.len() == 6 && token.starts_with("<0x") && token.ends_with('>') {
            if let Ok(byte) = u8::from_str_radix(&token[3..5], 16) {
                return vec![byte];
            }
        }
        token.replace(self.spaces.as_slice(), " ").into_bytes()
    }

    fn is_byte_token(&self, token: &str) -> bool {
        !self.is_byte_level && self.bytes(token).len() == 1 && token.len() == 6
    }
}

/// The byte that GPT-2's alphabet writes as `character`: itself where it is printable, or the next code from 256 on.
fn byte_of(character: char) -> Option<u8> {
    match character as u32 {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(code as u8),
        code @ 0x100..=0x120 => Some((code - 0x100) as u8),
        code @ 0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// What a token adds to a text; empty for tokens that add none, or are never a part of one.
struct Token {
    id: u32,
    bytes: Vec<u8>,
    is_byte: bool,
}

fn tokens_of(tokenizer: &Tokenizer, spelling: &Spelling, logits: usize, never: &HashSet<u32>) -> Vec<Token> {
    let added = tokenizer.get_added_vocabulary();
    let count = logits.min(tokenizer.get_vocab_size(true).max(highest_id(tokenizer)));
    (0..count as u32)
        .filter(|id| !never.contains(id))
        .filter_map(|id| tokenizer.id_to_token(id).map(|text| (id, text)))
        .filter(|(_, text)| !added.is_special_token(text))
        .map(|(id, text)| Token { id, bytes: spelling.bytes(&text), is_byte: spelling.is_byte_token(&text) })
        // No text in UTF-8 has this byte, which marks special tokens for toktrie.
        .filter(|token| !token.bytes.is_empty() && !token.bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER))
        .filter(|token| token.bytes.len() <= MAX_TOKEN_BYTES)
        .collect()
}

/// One more than the highest id: a vocabulary may have holes.
fn highest_id(tokenizer: &Tokenizer) -> usize {
    tokenizer.get_vocab(true).values().max().map_or(0, |id| *id as usize + 1)
}

/// An error unless all tokens decode to their bytes one after the other.
fn check_inside(tokenizer: &Tokenizer, tokens: &[Token]) -> Outcome<()> {
    let whole = |token: &&Token| !token.is_byte && std::str::from_utf8(&token.bytes).is_ok();
    let Some(first) = tokens.iter().filter(whole).find(|token| !token.bytes.contains(&b' ')) else { return Ok(()) };
    let all: Vec<&Token> = std::iter::once(first).chain(tokens.iter().filter(whole)).collect();
    let ids: Vec<u32> = all.iter().map(|token| token.id).collect();
    let text: Vec<u8> = all.iter().flat_map(|token| token.bytes.iter().copied()).collect();
    match tokenizer.decode(&ids, true)?.as_bytes() == text {
        true => Ok(()),
        false => Err("its decoder changes the text of tokens inside a text".into()),
    }
}

/// Whether a space at the beginning of a text is removed, and the tokens that cannot be first.
fn read_beginning(tokenizer: &Tokenizer, tokens: &[Token]) -> Outcome<(bool, Vec<u32>)> {
    const TRIED: usize = 16;
    let spaced = |token: &&Token| token.bytes.contains(&b' ') && std::str::from_utf8(&token.bytes).is_ok();
    let decoded = |token: &Token| tokenizer.decode(&[token.id], true).map(String::into_bytes);
    let mut is_stripped = false;
    for token in tokens.iter().filter(spaced).filter(|token| token.bytes.starts_with(b" ")).take(TRIED) {
        is_stripped = is_stripped || decoded(token)? != token.bytes;
    }
    let mut never_first = Vec::new();
    if is_stripped {
        for token in tokens.iter().filter(spaced) {
            let stripped = token.bytes.strip_prefix(b" ").unwrap_or(&token.bytes);
            if decoded(token)? != stripped {
                never_first.push(token.id);
            }
        }
    }
    Ok((is_stripped, never_first))
}

impl Vocabulary {
    pub fn new(tokenizer: &Tokenizer, logits: usize, end_tokens: &[u32]) -> Outcome<Self> {
        if logits == 0 || logits > MAX_TOKENS {
            return Err(format!("{logits} logits; accepted: 1 to {MAX_TOKENS}").into());
        }
        let decoder = tokenizer.get_decoder().ok_or("it has no decoder: its tokens are words")?;
        let mut spelling = Spelling::default();
        spelling.read(decoder)?;
        let ends: Vec<u32> = end_tokens.iter().copied().filter(|id| (*id as usize) < logits).collect();
        let tokens = tokens_of(tokenizer, &spelling, logits, &ends.iter().copied().collect());
        check_inside(tokenizer, &tokens)?;
        let (strips_space, never_first) = read_beginning(tokenizer, &tokens)?;
        let with_space = tokens.iter().filter(|token| token.bytes[0] == b' ').map(|token| token.id).collect();

        let mut words = vec![Vec::new(); logits];
        for token in tokens {
            words[token.id as usize] = token.bytes;
        }
        let info = TokRxInfo::new(logits as u32, ends.first().copied().unwrap_or(INVALID_TOKEN));
        let mut trie = TokTrie::from(&info, &words);
        if !ends.is_empty() {
            trie = trie.with_eos_tokens(&ends);
        }
        let environment: TokEnv = std::sync::Arc::new(ApproximateTokEnv::new(trie));
        let mut factory =
            ParserFactory::new(&environment, InferenceCapabilities::default(), &SlicedBiasComputer::general_slices())?;
        factory.quiet();
        crate::constraint::set_limits(factory.limits_mut());
        Ok(Self { factory, strips_space, never_first, with_space, logits })
    }
}

