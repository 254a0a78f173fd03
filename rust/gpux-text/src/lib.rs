//! The functions of gpux_text.h, where they are documented.

mod changes;
mod constraint;
mod cut;
mod dead_ends;
mod json_schema;
mod lark_text;
mod property_names;
mod regex_text;
mod step_limit;
mod template;
mod vocabulary;

use std::ffi::{c_char, c_int, c_void, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::Once;

use tokenizers::{
    truncate_encodings, Encoding, Model, OffsetReferential, OffsetType, PostProcessor, PreTokenizedString,
    PreTokenizer, Tokenizer, TruncationDirection, TruncationParams, TruncationStrategy,
};

const SPECIAL_TOKENS: u32 = 1;
const TRUNCATE_LEFT: u32 = 2;
const TRUNCATE_FIRST_ONLY: u32 = 4;
const TRUNCATE_SECOND_ONLY: u32 = 8;
const BYTE_OFFSETS: u32 = 16;
const CHARACTER_OFFSETS: u32 = 32;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub struct GpuxTokenizer {
    tokenizer: Tokenizer,
    can_cut: bool,
}

impl GpuxTokenizer {
    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
}

/// A text's own tokens, neither cut nor with the special ones.
pub struct GpuxEncodedText(Encoding);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct GpuxText {
    data: *const c_char,
    size: usize,
}

#[repr(C)]
pub struct GpuxEncoding {
    count: usize,
    ids: *const u32,
    type_ids: *const u32,
    special: *const u32,
    sequence_ids: *const u32,
    offsets: *const usize,
    owner: *mut c_void,
}

#[repr(C)]
pub struct GpuxOwnedText {
    data: *const c_char,
    size: usize,
    owner: *mut c_void,
}

/// What a GpuxEncoding points into.
struct EncodingOwner {
    encoding: Encoding,
    sequence_ids: Vec<u32>,
    offsets: Vec<usize>,
}

/// Runs `work`; null, or what went wrong. Panics say it too.
fn guarded(work: impl FnOnce() -> Outcome<()>) -> *mut c_char {
    static QUIET: Once = Once::new();
    // The default hook writes to standard error, which is not ours.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let message = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return ptr::null_mut(),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text.clone(),
            (_, Some(text)) => text.to_string(),
            _ => "the tokenizer failed".to_string(),
        },
    };
    CString::new(message.replace('\0', " ")).unwrap_or_default().into_raw()
}

unsafe fn bytes<'a>(text: GpuxText) -> &'a [u8] {
    if text.data.is_null() {
        &[]
    } else {
        std::slice::from_raw_parts(text.data.cast(), text.size)
    }
}

fn utf8<'a>(bytes: &'a [u8]) -> Outcome<&'a str> {
    std::str::from_utf8(bytes).map_err(|error| format!("not UTF-8 at byte offset {}", error.valid_up_to()).into())
}

fn added_tokens(tokenizer: &GpuxTokenizer, is_pair: bool) -> usize {
    tokenizer.tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(is_pair))
}

/// Tokens up to a limit, counted from one end.
#[derive(Clone, Copy)]
struct Early {
    max_tokens: usize,
    direction: TruncationDirection,
}

fn tokenized(tokenizer: &Tokenizer, text: &str, early: Option<Early>) -> Outcome<PreTokenizedString> {
    let mut pieces = tokenizer.get_added_vocabulary().extract_and_normalize(tokenizer.get_normalizer(), text);
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        pre_tokenizer.pre_tokenize(&mut pieces)?;
    }
    let early = early.map(|early| (early.max_tokens, early.direction));
    tokenizer.get_model().tokenize_in_pretokenized(&mut pieces, early)?;
    Ok(pieces)
}

fn count_tokens(pieces: &PreTokenizedString) -> usize {
    pieces
        .get_splits(OffsetReferential::Original, OffsetType::Byte)
        .iter()
        .map(|(_, _, tokens)| tokens.as_ref().map_or(0, Vec::len))
        .sum()
}

/// What tokenized() gives for the whole text, of the first `bytes` of it; none where they do not decide that.
fn tokenized_prefix(tokenizer: &Tokenizer, text: &str, bytes: usize, early: Early) -> Outcome<Option<PreTokenizedString>> {
    let Some(end) = cut::last_boundary(text, bytes / 2, bytes) else { return Ok(None) };
    let pieces = tokenized(tokenizer, &text[..end], Some(early))?;
    Ok((count_tokens(&pieces) >= early.max_tokens).then_some(pieces))
}

/// The same of the last `bytes`. Offsets are those in the part that was read.
fn tokenized_suffix(tokenizer: &Tokenizer, text: &str, bytes: usize, early: Early) -> Outcome<Option<PreTokenizedString>> {
    let from = text.len() - bytes;
    let Some(begin) = cut::first_boundary(text, from, from + bytes / 2) else { return Ok(None) };
    // What is put before a text, or taken from its beginning, concerns its first word: none of its tokens may count.
    let Some(second) = cut::first_boundary(text, begin + 1, text.len()) else { return Ok(None) };
    let pieces = tokenized(tokenizer, &text[begin..], Some(early))?;
    let reached = pieces.get_splits(OffsetReferential::Original, OffsetType::Byte).first().map_or(0, |first| first.1 .0);
    Ok((count_tokens(&pieces) >= early.max_tokens && reached >= second - begin).then_some(pieces))
}

/// tokenized(), without reading more of a long text than its first or last tokens need. Exactly the same tokens.
fn tokenized_within(
    tokenizer: &GpuxTokenizer,
    text: &str,
    early: Option<Early>,
    has_offsets: bool,
    max_bytes: usize,
) -> Outcome<PreTokenizedString> {
    const FIRST_BYTES_PER_TOKEN: usize = 8;
    const LEAST_BYTES: usize = 2048;
    const GROWTH: usize = 4;
    let is_left = early.is_some_and(|early| matches!(early.direction, TruncationDirection::Left));
    if let Some(early) = early.filter(|_| tokenizer.can_cut && !(is_left && has_offsets)) {
        let mut bytes = early.max_tokens.saturating_mul(FIRST_BYTES_PER_TOKEN).max(LEAST_BYTES);
        while bytes < text.len() / 2 && (max_bytes == 0 || bytes <= max_bytes) {
            let found = match is_left {
                true => tokenized_suffix(&tokenizer.tokenizer, text, bytes, early)?,
                false => tokenized_prefix(&tokenizer.tokenizer, text, bytes, early)?,
            };
            if let Some(pieces) = found {
                return Ok(pieces);
            }
            bytes = bytes.saturating_mul(GROWTH);
        }
    }
    if max_bytes != 0 && text.len() > max_bytes {
        return Err(match early {
            Some(early) => format!(
                "the text has {} bytes, and {max_bytes} of them do not settle its {} tokens; accepted: at most \
                 {max_bytes} bytes, or a longer text of words with spaces between them",
                text.len(),
                early.max_tokens
            ),
            None => format!("the text has {} bytes; accepted: at most {max_bytes}", text.len()),
        }
        .into());
    }
    tokenized(&tokenizer.tokenizer, text, early)
}

/// What Tokenizer::encode does for one sequence, with the truncation of this call: a tokenizer holds one for all.
fn encode_alone(
    tokenizer: &GpuxTokenizer,
    text: &str,
    type_id: u32,
    flags: u32,
    truncation: Option<&TruncationParams>,
    max_bytes: usize,
) -> Outcome<Encoding> {
    let (offsets, has_offsets) = match flags & (BYTE_OFFSETS | CHARACTER_OFFSETS) {
        BYTE_OFFSETS => (OffsetType::Byte, true),
        CHARACTER_OFFSETS => (OffsetType::Char, true),
        _ => (OffsetType::None, false),
    };
    let early = truncation
        .filter(|params| params.strategy != TruncationStrategy::OnlySecond || type_id != 0)
        .map(|params| Early { max_tokens: params.max_length, direction: params.direction });
    tokenized_within(tokenizer, text, early, has_offsets, max_bytes)?.into_encoding(None, type_id, offsets)
}

fn merge(tokenizer: &Tokenizer, first: Encoding, second: Option<Encoding>, special: bool) -> Outcome<Encoding> {
    if let Some(processor) = tokenizer.get_post_processor() {
        return processor.process(first, second, special);
    }
    let mut both = <dyn PostProcessor>::default_process(std::iter::once(first).chain(second).collect(), special)?;
    Ok(both.swap_remove(0))
}

fn truncation_of(flags: u32, max_tokens: usize) -> Option<TruncationParams> {
    let strategy = match flags & (TRUNCATE_FIRST_ONLY | TRUNCATE_SECOND_ONLY) {
        TRUNCATE_FIRST_ONLY => TruncationStrategy::OnlyFirst,
        TRUNCATE_SECOND_ONLY => TruncationStrategy::OnlySecond,
        _ => TruncationStrategy::LongestFirst,
    };
    let direction =
        if flags & TRUNCATE_LEFT != 0 { TruncationDirection::Left } else { TruncationDirection::Right };
    (max_tokens != 0).then_some(TruncationParams { direction, max_length: max_tokens, strategy, stride: 0 })
}

/// How the texts of a call are cut before the special tokens are counted.
fn first_truncation(flags: u32, max_tokens: usize, is_pair: bool) -> Option<TruncationParams> {
    // Of one text alone nothing can give way but itself.
    let flags = if is_pair { flags } else { flags & !(TRUNCATE_FIRST_ONLY | TRUNCATE_SECOND_ONLY) };
    truncation_of(flags, max_tokens)
}

/// Cuts what was encoded and adds the special tokens.
fn finish(
    tokenizer: &GpuxTokenizer,
    mut first: Encoding,
    mut second: Option<Encoding>,
    flags: u32,
    truncation: Option<TruncationParams>,
) -> Outcome<Encoding> {
    let special = flags & SPECIAL_TOKENS != 0;
    if let Some(mut params) = truncation {
        let max_tokens = params.max_length;
        let added = if special { added_tokens(tokenizer, second.is_some()) } else { 0 };
        params.max_length = max_tokens
            .checked_sub(added)
            .ok_or_else(|| format!("{max_tokens} tokens have no room for the {added} special ones"))?;
        (first, second) = truncate_encodings(first, second, &params)?;
        // What was cut off is of no use here.
        first.take_overflowing();
        if let Some(second) = &mut second {
            second.take_overflowing();
        }
    }
    merge(&tokenizer.tokenizer, first, second, special)
}

fn encode(
    tokenizer: &GpuxTokenizer,
    text: &str,
    pair: Option<&str>,
    flags: u32,
    max_tokens: usize,
    max_bytes: usize,
) -> Outcome<Encoding> {
    let truncation = first_truncation(flags, max_tokens, pair.is_some());
    let first = encode_alone(tokenizer, text, 0, flags, truncation.as_ref(), max_bytes)?;
    let second = pair
        .map(|text| encode_alone(tokenizer, text, 1, flags, truncation.as_ref(), max_bytes))
        .transpose()?;
    finish(tokenizer, first, second, flags, truncation)
}

/// Gives the encoding to the caller of gpux_tokenizer_encode().
fn own_encoding(result: Encoding, flags: u32, out: &mut GpuxEncoding) {
    let has_offsets = flags & (BYTE_OFFSETS | CHARACTER_OFFSETS) != 0;
    let offsets = match has_offsets {
        true => result.get_offsets().iter().flat_map(|(begin, end)| [*begin, *end]).collect(),
        false => Vec::new(),
    };
    let sequence_ids = sequence_ids(&result);
    let owner = Box::new(EncodingOwner { encoding: result, sequence_ids, offsets });
    *out = GpuxEncoding {
        count: owner.encoding.len(),
        ids: owner.encoding.get_ids().as_ptr(),
        type_ids: owner.encoding.get_type_ids().as_ptr(),
        special: owner.encoding.get_special_tokens_mask().as_ptr(),
        sequence_ids: owner.sequence_ids.as_ptr(),
        offsets: if has_offsets { owner.offsets.as_ptr() } else { ptr::null() },
        owner: Box::into_raw(owner).cast(),
    };
}

fn sequence_ids(encoding: &Encoding) -> Vec<u32> {
    encoding
        .get_sequence_ids()
        .into_iter()
        .map(|id| id.map_or(u32::MAX, |id| id as u32))
        .collect()
}

fn own_text(text: String, out: &mut GpuxOwnedText) {
    let owner = Box::new(text);
    out.data = owner.as_ptr().cast();
    out.size = owner.len();
    out.owner = Box::into_raw(owner).cast();
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_tokenizer_open(
    json: GpuxText,
    changes: GpuxText,
    tokenizer: *mut *mut GpuxTokenizer,
) -> *mut c_char {
    guarded(|| {
        *tokenizer = ptr::null_mut();
        let (json, changes) = (bytes(json), bytes(changes));
        let mut opened = GpuxTokenizer { tokenizer: Tokenizer::from_bytes(json)?, can_cut: cut::can_cut(json) };
        if !changes.is_empty() {
            let can_cut = changes::apply(&mut opened.tokenizer, &serde_json::from_slice(changes)?)?;
            opened.can_cut = opened.can_cut && can_cut;
        }
        *tokenizer = Box::into_raw(Box::new(opened));
        Ok(())
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_tokenizer_close(tokenizer: *mut GpuxTokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_tokenizer_encode(
    tokenizer: *const GpuxTokenizer,
    text: GpuxText,
    pair: *const GpuxText,
    flags: u32,
    max_tokens: usize,
    max_bytes: usize,
    encoding: *mut GpuxEncoding,
) -> *mut c_char {
    guarded(|| {
        let text = utf8(bytes(text))?;
        let pair = pair.as_ref().map(|pair| utf8(bytes(*pair))).transpose()?;
        let result = encode(&*tokenizer, text, pair, flags, max_tokens, max_bytes)?;
        own_encoding(result, flags, &mut *encoding);
        Ok(())
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_tokenizer_encode_first(
    tokenizer: *const GpuxTokenizer,
    text: GpuxText,
    flags: u32,
    max_tokens: usize,
    max_bytes: usize,
    first: *mut *mut GpuxEncodedText,
) -> *mut c_char {
    guarded(|| {
        *first = ptr::null_mut();
        let text = utf8(bytes(text))?;
        let truncation = first_truncation(flags, max_tokens, true);
        let encoding = encode_alone(&*tokenizer, text, 0, flags, truncation.as_ref(), max_bytes)?;
        *first = Box::into_raw(Box::new(GpuxEncodedText(encoding)));
        Ok(())
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_tokenizer_encode_second(
    tokenizer: *const GpuxTokenizer,
    first: *const GpuxEncodedText,
    pair: GpuxText,
    flags: u32,
    max_tokens: usize,
    max_bytes: usize,
    encoding: *mut GpuxEncoding,
) -> *mut c_char {
    guarded(|| {
        let pair = utf8(bytes(pair))?;
        let truncation = first_truncation(flags, max_tokens, true);
        let second = encode_alone(&*tokenizer, pair, 1, flags, truncation.as_ref(), max_bytes)?;
        let result = finish(&*tokenizer, (*first).0.clone(), Some(second), flags, truncation)?;
        own_encoding(result, flags, &mut *encoding);
        Ok(())
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_encoded_text_free(first: *mut GpuxEncodedText) {
    if !first.is_null() {
        drop(Box::from_raw(first));
    }
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_encoding_free(encoding: *mut GpuxEncoding) {
    if let Some(encoding) = encoding.as_mut() {
        if !encoding.owner.is_null() {
            drop(Box::from_raw(encoding.owner.cast::<EncodingOwner>()));
        }
        encoding.owner = ptr::null_mut();
    }
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_tokenizer_decode(
    tokenizer: *const GpuxTokenizer,
    ids: *const u32,
    count: usize,
    skip_special: c_int,
    text: *mut GpuxOwnedText,
) -> *mut c_char {
    guarded(|| {
        let ids = if count == 0 { &[] } else { std::slice::from_raw_parts(ids, count) };
        let tokenizer = &(*tokenizer).tokenizer;
        if let Some(index) = ids.iter().position(|id| tokenizer.id_to_token(*id).is_none()) {
            return Err(format!(
                "token id {} at index {index} is not in the vocabulary; accepted: ids of its {} tokens",
                ids[index],
                tokenizer.get_vocab_size(true)
            )
            .into());
        }
        own_text(tokenizer.decode(ids, skip_special != 0)?, &mut *text);
        Ok(())
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_tokenizer_token(
    tokenizer: *const GpuxTokenizer,
    id: u32,
    text: *mut GpuxOwnedText,
) -> *mut c_char {
    guarded(|| {
        *text = GpuxOwnedText { data: ptr::null(), size: 0, owner: ptr::null_mut() };
        if let Some(token) = (*tokenizer).tokenizer.id_to_token(id) {
            own_text(token, &mut *text);
        }
        Ok(())
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_text_free(text: *mut GpuxOwnedText) {
    if let Some(text) = text.as_mut() {
        if !text.owner.is_null() {
            drop(Box::from_raw(text.owner.cast::<String>()));
        }
        text.owner = ptr::null_mut();
    }
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_tokenizer_id(tokenizer: *const GpuxTokenizer, token: GpuxText) -> i64 {
    catch_unwind(AssertUnwindSafe(|| {
        let token = utf8(bytes(token)).ok()?;
        (*tokenizer).tokenizer.token_to_id(token).map(i64::from)
    }))
    .ok()
    .flatten()
    .unwrap_or(-1)
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_tokenizer_vocabulary_size(tokenizer: *const GpuxTokenizer) -> usize {
    catch_unwind(AssertUnwindSafe(|| (*tokenizer).tokenizer.get_vocab_size(true))).unwrap_or(0)
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_tokenizer_added_tokens(tokenizer: *const GpuxTokenizer, is_pair: c_int) -> usize {
    catch_unwind(AssertUnwindSafe(|| added_tokens(&*tokenizer, is_pair != 0))).unwrap_or(0)
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_text_free_message(message: *mut c_char) {
    if !message.is_null() {
        drop(CString::from_raw(message));
    }
}
