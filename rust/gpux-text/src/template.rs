//! Chat templates: Jinja as transformers' apply_chat_template() has it. The functions of gpux_text.h.

mod json;
mod methods;
mod python;
mod rewrite;
mod text;
mod time;
mod values;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::ffi::c_char;
use std::ptr;

use minijinja::machinery::{eval, make_string_output, parse, tokenize, CodeGenerator, Instructions, Token};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use crate::{bytes, guarded, own_text, utf8, GpuxOwnedText, GpuxText, Outcome};

const MAX_TEMPLATE_BYTES: usize = 1 << 20;
// What follows each other in an expression, or with elif, is nested for the parser, which recurses.
const MAX_TAG_TOKENS: usize = 2048;
const MAX_ELIFS: usize = 512;
/// Calls of macros and loops within each other. Jinja's own limit is Python's, of about 300 macros.
const MAX_RECURSION: usize = 200;
/// A step is an instruction, or 64 bytes of text that it makes.
const BASE_STEPS: u64 = 4_000_000;
const STEPS_PER_BYTE: u64 = 8;

const BROKEN: u32 = 1;
const RAISED: u32 = 2;
const MISFIT: u32 = 3;
const TOO_MANY_STEPS: u32 = 4;
const TOO_LONG: u32 = 5;

pub struct GpuxTemplate {
    // Borrows the source: dropped before it.
    instructions: Instructions<'static>,
    environment: Environment<'static>,
    _source: Box<str>,
}

/// A failure, and what kind of failure it is.
#[derive(Debug)]
pub struct Failure(u32, String);

fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(false).build()
}

/// `{% generation %}` marks what the model wrote, and prints it as it is. Like it, `{% with %}` has a scope of its own.
fn without_generation_tags(source: &str) -> String {
    let mut made = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = rest.find('{') {
        made.push_str(&rest[..open]);
        rest = &rest[open..];
        let end_mark = match rest.as_bytes().get(1) {
            Some(b'#') => "#}",
            Some(b'%') => "%}",
            _ => {
                made.push('{');
                rest = &rest[1..];
                continue;
            }
        };
        let Some(end) = rest.find(end_mark) else { break };
        let tag = &rest[..end + 2];
        let mut word = tag[2..end].trim_matches(['-', '+']).trim();
        if end_mark == "#}" {
            word = "";
        }
        match word {
            "generation" => made.push_str(&tag.replace("generation", "with")),
            "endgeneration" => made.push_str(&tag.replace("endgeneration", "endwith")),
            "raw" => {
                // Up to the tag that ends it, which is copied by the next turn.
                let behind = &rest[end + 2..];
                let stop = behind.match_indices("{%").map(|found| found.0).find(|at| {
                    behind[at + 2..].trim_start_matches(['-', '+']).trim_start().starts_with("endraw")
                });
                let length = stop.map_or(rest.len(), |at| end + 2 + at);
                made.push_str(&rest[..length]);
                rest = &rest[length..];
                continue;
            }
            _ => made.push_str(tag),
        }
        rest = &rest[end + 2..];
    }
    made.push_str(rest);
    made
}

fn check_tags(source: &str) -> Result<(), Error> {
    let refuse = |message: String| Err(Error::new(ErrorKind::SyntaxError, message));
    let (mut tokens, mut elifs) = (0, 0);
    for token in tokenize(source, false, syntax()?) {
        match token?.0 {
            Token::VariableStart | Token::BlockStart => tokens = 0,
            Token::Ident("elif") => elifs += 1,
            _ => {}
        }
        tokens += 1;
        if tokens > MAX_TAG_TOKENS {
            return refuse(format!("a tag of more than {MAX_TAG_TOKENS} tokens"));
        }
        if elifs > MAX_ELIFS {
            return refuse(format!("more than {MAX_ELIFS} times elif"));
        }
    }
    Ok(())
}

/// What an error says, with the line where one is known.
fn message_of(error: &Error) -> String {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
    match error.line() {
        Some(line) => format!("line {line}: {detail}"),
        None => detail,
    }
}

impl GpuxTemplate {
    pub fn compile(source: &str) -> Result<GpuxTemplate, Failure> {
        if source.len() > MAX_TEMPLATE_BYTES {
            let message = format!("it has {} bytes; accepted: up to {MAX_TEMPLATE_BYTES}", source.len());
            return Err(Failure(BROKEN, message));
        }
        // Jinja reads all line ends as "\n".
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let source = without_generation_tags(&source).into_boxed_str();
        // SAFETY: the box outlives the instructions, which are private and never given away, and does not move its text.
        let text: &'static str = unsafe { &*ptr::from_ref::<str>(&source) };
        let broken = |error: Error| Failure(BROKEN, message_of(&error));
        check_tags(text).map_err(broken)?;
        let parsed = parse(text, "", syntax().map_err(broken)?).map_err(broken)?;
        let rewritten = rewrite::template(text, &parsed).map_err(broken)?;
        let mut generator = CodeGenerator::new("", text);
        generator.compile_stmt(&rewritten);
        let (instructions, _) = generator.finish();
        let mut environment = python::environment();
        environment.set_recursion_limit(MAX_RECURSION);
        Ok(GpuxTemplate { instructions, environment, _source: source })
    }

    /// `values`: a JSON object. `now`: seconds since 1970.
    pub fn render(&self, values: &str, now: i64, max_bytes: usize) -> Result<String, Failure> {
        let misfit = |message: String| Failure(MISFIT, message);
        let root = json::read(values).map_err(misfit)?;
        if root.kind() != ValueKind::Map {
            return Err(misfit("the values of a template are a JSON object".to_string()));
        }
        let mut pairs: Vec<(Value, Value)> = Vec::new();
        for key in root.try_iter().map_err(|error| misfit(message_of(&error)))? {
            let value = root.get_item(&key).unwrap_or_default();
            pairs.push((key, value));
        }
        pairs.push((Value::from(python::NOW), Value::from_object(time::Now { seconds: now })));
        let steps = BASE_STEPS.saturating_add((values.len() as u64).saturating_mul(STEPS_PER_BYTE));
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(steps));
        let mut text = String::new();
        let outcome = {
            let mut output = make_string_output(&mut text);
            let blocks = BTreeMap::new();
            let root = Value::from_pairs(pairs);
            eval(&environment, &self.instructions, root, &blocks, &mut output, AutoEscape::None).map(|_| ())
        };
        outcome.map_err(|error| failure_of(&error, steps, values.len()))?;
        if text.len() > max_bytes {
            return Err(Failure(
                TOO_LONG,
                format!("the prompt has {} bytes; accepted: up to {max_bytes}", text.len()),
            ));
        }
        Ok(text)
    }
}

fn failure_of(error: &Error, steps: u64, value_bytes: usize) -> Failure {
    if error.kind() == ErrorKind::OutOfFuel {
        let message = format!("it takes more than {steps} steps for {value_bytes} bytes of values");
        return Failure(TOO_MANY_STEPS, message);
    }
    let mut cause = error.source();
    while let Some(one) = cause {
        if let Some(python::Raised(message)) = one.downcast_ref() {
            return Failure(RAISED, message.clone());
        }
        if one.downcast_ref::<Error>().is_some_and(|inner| inner.kind() == ErrorKind::OutOfFuel) {
            return Failure(TOO_MANY_STEPS, format!("it takes more than {steps} steps for {value_bytes} bytes of values"));
        }
        cause = one.source();
    }
    let is_of_template = matches!(error.kind(), ErrorKind::UnknownFunction | ErrorKind::UnknownFilter | ErrorKind::UnknownTest);
    Failure(if is_of_template { BROKEN } else { MISFIT }, message_of(error))
}

/// Keeps the kind of a failure, and gives its message to guarded().
fn kept<T>(result: Result<T, Failure>, kind: *mut u32) -> Outcome<T> {
    result.map_err(|Failure(code, message)| {
        // SAFETY: the caller's own, by gpux_text.h.
        unsafe { *kind = code };
        message.into()
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_template_compile(
    source: GpuxText,
    template: *mut *mut GpuxTemplate,
    failure: *mut u32,
) -> *mut c_char {
    guarded(|| {
        *template = ptr::null_mut();
        *failure = BROKEN;
        let compiled = kept(GpuxTemplate::compile(utf8(bytes(source))?), failure)?;
        *template = Box::into_raw(Box::new(compiled));
        Ok(())
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_template_close(template: *mut GpuxTemplate) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_template_render(
    template: *const GpuxTemplate,
    values: GpuxText,
    now: i64,
    max_bytes: usize,
    text: *mut GpuxOwnedText,
    failure: *mut u32,
) -> *mut c_char {
    guarded(|| {
        *text = GpuxOwnedText { data: ptr::null(), size: 0, owner: ptr::null_mut() };
        *failure = MISFIT;
        let rendered = kept((*template).render(utf8(bytes(values))?, now, max_bytes), failure)?;
        own_text(rendered, &mut *text);
        Ok(())
    })
}
