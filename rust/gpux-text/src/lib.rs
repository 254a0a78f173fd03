//! The functions of gpux_text.h, where they are documented.

use std::ffi::{c_char, c_int, c_void, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::Once;

use tokenizers::{
    truncate_encodings, Encoding, Model, OffsetType, PostProcessor, PreTokenizer, Tokenizer, TruncationDirection,
    TruncationParams, TruncationStrategy,
};

const SPECIAL_TOKENS: u32 = 1;
const TRUNCATE_LEFT: u32 = 2;
const TRUNCATE_FIRST_ONLY: u32 = 4;
const TRUNCATE_SECOND_ONLY: u32 = 8;
const BYTE_OFFSETS: u32 = 16;
const CHARACTER_OFFSETS: u32 = 32;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

pub struct GpuxTokenizer(Tokenizer);

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
    tokenizer.0.get_post_processor().map_or(0, |processor| processor.added_tokens(is_pair))
}

/// What Tokenizer::encode does for one sequence, with the truncation of this call: a tokenizer holds one for all.
fn encode_alone(
    tokenizer: &Tokenizer,
    text: &str,
    type_id: u32,
    flags: u32,
    truncation: Option<&TruncationParams>,
) -> Outcome<Encoding> {
    let offsets = match flags & (BYTE_OFFSETS | CHARACTER_OFFSETS) {
        BYTE_OFFSETS => OffsetType::Byte,
        CHARACTER_OFFSETS => OffsetType::Char,
        _ => OffsetType::None,
    };
    let mut pieces = tokenizer.get_added_vocabulary().extract_and_normalize(tokenizer.get_normalizer(), text);
    if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
        pre_tokenizer.pre_tokenize(&mut pieces)?;
    }
    let early = truncation
        .filter(|params| params.strategy != TruncationStrategy::OnlySecond || type_id != 0)
        .map(|params| (params.max_length, params.direction));
    tokenizer.get_model().tokenize_in_pretokenized(&mut pieces, early)?;
    pieces.into_encoding(None, type_id, offsets)
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

fn encode(
    tokenizer: &GpuxTokenizer,
    text: &str,
    pair: Option<&str>,
    flags: u32,
    max_tokens: usize,
) -> Outcome<Encoding> {
    let special = flags & SPECIAL_TOKENS != 0;
    // Of one text alone nothing can give way but itself.
    let pair_flags = if pair.is_none() { flags & !(TRUNCATE_FIRST_ONLY | TRUNCATE_SECOND_ONLY) } else { flags };
    let mut truncation = truncation_of(pair_flags, max_tokens);
    let mut first = encode_alone(&tokenizer.0, text, 0, flags, truncation.as_ref())?;
    let mut second =
        pair.map(|text| encode_alone(&tokenizer.0, text, 1, flags, truncation.as_ref())).transpose()?;
    if let Some(params) = &mut truncation {
        let added = if special { added_tokens(tokenizer, pair.is_some()) } else { 0 };
        params.max_length = max_tokens
            .checked_sub(added)
            .ok_or_else(|| format!("{max_tokens} tokens have no room for the {added} special ones"))?;
        (first, second) = truncate_encodings(first, second, params)?;
        // What was cut off is of no use here.
        first.take_overflowing();
        if let Some(second) = &mut second {
            second.take_overflowing();
        }
    }
    merge(&tokenizer.0, first, second, special)
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
    json: *const c_char,
    size: usize,
    tokenizer: *mut *mut GpuxTokenizer,
) -> *mut c_char {
    guarded(|| {
        *tokenizer = ptr::null_mut();
        let opened = Tokenizer::from_bytes(bytes(GpuxText { data: json, size }))?;
        *tokenizer = Box::into_raw(Box::new(GpuxTokenizer(opened)));
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
    encoding: *mut GpuxEncoding,
) -> *mut c_char {
    guarded(|| {
        let text = utf8(bytes(text))?;
        let pair = pair.as_ref().map(|pair| utf8(bytes(*pair))).transpose()?;
        let result = encode(&*tokenizer, text, pair, flags, max_tokens)?;
        let has_offsets = flags & (BYTE_OFFSETS | CHARACTER_OFFSETS) != 0;
        let offsets = match has_offsets {
            true => result.get_offsets().iter().flat_map(|(begin, end)| [*begin, *end]).collect(),
            false => Vec::new(),
        };
        let sequence_ids = sequence_ids(&result);
        let owner = Box::new(EncodingOwner { encoding: result, sequence_ids, offsets });
        *encoding = GpuxEncoding {
            count: owner.encoding.len(),
            ids: owner.encoding.get_ids().as_ptr(),
            type_ids: owner.encoding.get_type_ids().as_ptr(),
            special: owner.encoding.get_special_tokens_mask().as_ptr(),
            sequence_ids: owner.sequence_ids.as_ptr(),
            offsets: if has_offsets { owner.offsets.as_ptr() } else { ptr::null() },
            owner: Box::into_raw(owner).cast(),
        };
        Ok(())
    })
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
        let tokenizer = &(*tokenizer).0;
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
        if let Some(token) = (*tokenizer).0.id_to_token(id) {
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
        (*tokenizer).0.token_to_id(token).map(i64::from)
    }))
    .ok()
    .flatten()
    .unwrap_or(-1)
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_tokenizer_vocabulary_size(tokenizer: *const GpuxTokenizer) -> usize {
    catch_unwind(AssertUnwindSafe(|| (*tokenizer).0.get_vocab_size(true))).unwrap_or(0)
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
