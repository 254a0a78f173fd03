//! What the files next to tokenizer.json change in the tokenizer.

use std::collections::HashMap;

use serde::Deserialize;
use tokenizers::normalizers::{BertNormalizer, Lowercase, Sequence};
use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

use crate::Outcome;

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct BertSettings {
    lowercase: bool,
    strip_accents: Option<bool>,
    handle_chinese_chars: bool,
}

/// The members are documented in gpux_text.h.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Changes {
    bert_normalizer: Option<BertSettings>,
    lowercase: bool,
    required_lowercase: Option<bool>,
    add_prefix_space: Option<bool>,
    split_special_tokens: bool,
    added_tokens: Vec<AddedToken>,
    special_tokens: Vec<String>,
}

fn set_bert(normalizer: &mut NormalizerWrapper, settings: BertSettings) {
    match normalizer {
        NormalizerWrapper::BertNormalizer(bert) => {
            *bert = BertNormalizer::new(
                true,
                settings.handle_chinese_chars,
                settings.strip_accents,
                settings.lowercase,
            );
        }
        NormalizerWrapper::Sequence(steps) => steps.as_mut().iter_mut().for_each(|step| set_bert(step, settings)),
        _ => (),
    }
}

/// Whether one of its own steps is Lowercase, as sentence-transformers looks for it.
fn has_lowercase(normalizer: Option<&NormalizerWrapper>) -> bool {
    match normalizer {
        Some(NormalizerWrapper::Lowercase(_)) => true,
        Some(NormalizerWrapper::Sequence(steps)) => {
            steps.as_ref().iter().any(|step| matches!(step, NormalizerWrapper::Lowercase(_)))
        }
        _ => false,
    }
}

fn lowercased(normalizer: Option<NormalizerWrapper>) -> NormalizerWrapper {
    let mut steps = vec![NormalizerWrapper::Lowercase(Lowercase)];
    match normalizer {
        Some(NormalizerWrapper::Sequence(others)) => steps.extend(others),
        Some(other) => steps.push(other),
        None => (),
    }
    NormalizerWrapper::Sequence(Sequence::new(steps))
}

fn set_prefix_space(step: &mut PreTokenizerWrapper, add: bool) {
    match step {
        PreTokenizerWrapper::ByteLevel(bytes) => bytes.add_prefix_space = add,
        PreTokenizerWrapper::Sequence(steps) => steps.as_mut().iter_mut().for_each(|step| set_prefix_space(step, add)),
        _ => (),
    }
}

/// The tokens to add: those given that the tokenizer does not have so, then the named special tokens that are in the
/// vocabulary alone.
fn tokens_of(tokenizer: &Tokenizer, changes: &Changes) -> Vec<AddedToken> {
    let added = tokenizer.get_added_tokens_decoder();
    let known: HashMap<&str, &AddedToken> = added.values().map(|token| (token.content.as_str(), token)).collect();
    let mut tokens = changes.added_tokens.clone();
    tokens.retain(|token| known.get(token.content.as_str()).is_none_or(|same| *same != token));
    for token in &mut tokens {
        token.special = token.special || changes.special_tokens.contains(&token.content);
    }
    for name in &changes.special_tokens {
        let is_added = known.contains_key(name.as_str()) || tokens.iter().any(|token| token.content == *name);
        if !is_added && tokenizer.token_to_id(name).is_some() {
            tokens.push(AddedToken::from(name.as_str(), true));
        }
    }
    tokens
}

/// Applies them as transformers and sentence-transformers do. False: an added token has a blank in it, so that texts
/// must not be cut at blanks.
pub fn apply(tokenizer: &mut Tokenizer, changes: &Changes) -> Outcome<bool> {
    let mut normalizer = tokenizer.get_normalizer().cloned();
    if let (Some(settings), Some(normalizer)) = (changes.bert_normalizer, normalizer.as_mut()) {
        set_bert(normalizer, settings);
    }
    if let Some(required) = changes.required_lowercase {
        if has_lowercase(normalizer.as_ref()) != required {
            return Err(format!(
                "do_lower_case of tokenizer_config.json is {required}, and the normalizer of tokenizer.json {} texts; accepted: {}",
                if required { "does not lower-case" } else { "lower-cases" },
                !required
            )
            .into());
        }
    }
    if changes.lowercase && !has_lowercase(normalizer.as_ref()) {
        normalizer = Some(lowercased(normalizer));
    }
    tokenizer.with_normalizer(normalizer)?;
    if let Some(add) = changes.add_prefix_space {
        let mut pre_tokenizer = tokenizer.get_pre_tokenizer().cloned();
        if let Some(step) = pre_tokenizer.as_mut() {
            set_prefix_space(step, add);
        }
        tokenizer.with_pre_tokenizer(pre_tokenizer);
    }
    if changes.split_special_tokens {
        tokenizer.set_encode_special_tokens(true);
    }
    let tokens = tokens_of(tokenizer, changes);
    let can_cut = tokens.iter().all(|token| !token.content.contains(char::is_whitespace));
    tokenizer.add_tokens(tokens)?;
    Ok(can_cut)
}
