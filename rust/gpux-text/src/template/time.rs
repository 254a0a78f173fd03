//! strftime() of the local time, as Python's datetime.now().strftime() writes it.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr};

/// The time of a rendering.
#[derive(Debug)]
pub struct Now {
    pub seconds: i64,
}

impl Object for Now {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

const MAX_PATTERN_BYTES: usize = 256;
const MAX_BYTES: usize = 4096;

/// Empty where the time cannot be written.
pub fn local_time(seconds: i64, pattern: &str) -> Option<String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return None;
    }
    // Python writes these itself: a time without a zone has none of them, and this one no fraction.
    let mut own = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            own.push(c);
            continue;
        }
        match chars.next() {
            Some('f') => own.push_str("000000"),
            Some('z' | 'Z') => {}
            Some(other) => own.extend(['%', other]),
            None => own.push('%'),
        }
    }
    if own.is_empty() {
        return Some(own);
    }
    // A blank tells a text that is empty from one that is too long.
    let pattern = CString::new(own + " ").ok()?;
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    let mut text = vec![0u8; MAX_BYTES];
    let time: libc::time_t = seconds;
    // SAFETY: both functions write to what is passed, and no more than they are told.
    let written = unsafe {
        if libc::localtime_r(&time, parts.as_mut_ptr()).is_null() {
            return None;
        }
        libc::strftime(text.as_mut_ptr().cast(), text.len(), pattern.as_ptr(), parts.as_ptr())
    };
    text.truncate(written.checked_sub(1)?);
    String::from_utf8(text).ok()
}
