//! The methods of Python's str, dict, list and tuple that Jinja's sandbox allows in templates.

use std::sync::Arc;

use minijinja::formatting::{format, FormatStyle};
use minijinja::value::{from_args, Kwargs, Object, ObjectRepr, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::text::{is_dict, str_of};
use super::values::charge;

const STRING_METHODS: [&str; 43] = [
    "capitalize", "casefold", "center", "count", "encode", "endswith", "expandtabs", "find", "format", "format_map",
    "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric",
    "isprintable", "isspace", "istitle", "isupper", "join", "ljust", "lower", "lstrip", "partition", "removeprefix",
    "removesuffix", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split", "splitlines",
    "startswith", "strip", "swapcase", "title",
];
const MORE_STRING_METHODS: [&str; 4] = ["maketrans", "translate", "upper", "zfill"];
const DICT_METHODS: [&str; 6] = ["copy", "fromkeys", "get", "items", "keys", "values"];
const LIST_METHODS: [&str; 3] = ["copy", "count", "index"];
/// What the sandbox refuses: it gives an undefined value in their place.
const CHANGING_METHODS: [&str; 10] =
    ["append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "update"];
const SORT: &str = "sort";

/// Whether one of the types has such a method.
pub fn is_method_name(name: &str) -> bool {
    is_string_method(name)
        || DICT_METHODS.contains(&name)
        || LIST_METHODS.contains(&name)
        || CHANGING_METHODS.contains(&name)
        || name == SORT
}

fn is_string_method(name: &str) -> bool {
    STRING_METHODS.contains(&name) || MORE_STRING_METHODS.contains(&name)
}

enum Found {
    Method,
    Refused,
    None,
}

fn find(value: &Value, name: &str) -> Found {
    let (own, changing): (bool, &[&str]) = match value.kind() {
        ValueKind::String => (is_string_method(name), &[]),
        ValueKind::Map if is_dict(value) => {
            (DICT_METHODS.contains(&name), &["clear", "pop", "popitem", "setdefault", "update"])
        }
        ValueKind::Seq if value.is_tuple() => (name == "count" || name == "index", &[]),
        ValueKind::Seq => (
            LIST_METHODS.contains(&name),
            &["append", "clear", "extend", "insert", "pop", "remove", "reverse", SORT],
        ),
        _ => (false, &[]),
    };
    match (own, changing.contains(&name)) {
        (true, _) => Found::Method,
        (_, true) => Found::Refused,
        _ => Found::None,
    }
}

/// A method that was taken from its value and is not called yet.
#[derive(Debug)]
pub struct BoundMethod {
    pub value: Value,
    name: String,
}

impl Object for BoundMethod {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.value.call_method(state, &self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<built-in method {}>", self.name)
    }
}

/// `value.name`: a method comes before an item.
pub fn attribute(value: &Value, name: &str) -> Result<Value, Error> {
    match find(value, name) {
        Found::Method => Ok(Value::from_object(BoundMethod { value: value.clone(), name: name.to_string() })),
        Found::Refused => Ok(Value::UNDEFINED),
        Found::None => value.get_attr(name),
    }
}

/// `value[key]`: an item comes before a method.
pub fn item(value: &Value, key: &Value) -> Result<Value, Error> {
    let found = value.get_item(key)?;
    match key.as_str() {
        Some(name) if found.is_undefined() && is_method_name(name) => attribute(value, name),
        _ => Ok(found),
    }
}

pub fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match find(value, method) {
        Found::Refused => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("{method}() would change a value, which templates may not"),
            ))
        }
        Found::None => return Err(Error::from(ErrorKind::UnknownMethod)),
        Found::Method => {}
    }
    match value.kind() {
        ValueKind::String => string_method(state, value, method, args),
        ValueKind::Map => dict_method(value, method, args),
        _ => list_method(value, method, args),
    }
}

fn wrong_value(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

fn dict_method(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let keys: Vec<Value> = value.try_iter()?.collect();
    match method {
        "keys" => {
            let () = from_args(args)?;
            Ok(View::of("dict_keys", keys))
        }
        "values" => {
            let () = from_args(args)?;
            Ok(View::of("dict_values", keys.iter().map(|key| value.get_item(key)).collect::<Result<_, _>>()?))
        }
        "items" => {
            let () = from_args(args)?;
            let pair = |key: &Value| Ok(Value::from(Tuple::from([key.clone(), value.get_item(key)?])));
            Ok(View::of("dict_items", keys.iter().map(pair).collect::<Result<_, Error>>()?))
        }
        "get" => {
            let (key, otherwise): (&Value, Option<Value>) = from_args(args)?;
            let found = value.as_object().and_then(|object| object.get_value(key));
            Ok(found.or(otherwise).unwrap_or_else(|| Value::from(())))
        }
        "copy" => {
            let () = from_args(args)?;
            Ok(value.clone())
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

/// What keys(), values() and items() give: no list, so that tojson refuses it and it has no positions.
#[derive(Debug)]
pub struct View {
    pub name: &'static str,
    pub values: Vec<Value>,
}

impl View {
    fn of(name: &'static str, values: Vec<Value>) -> Value {
        Value::from_object(View { name, values })
    }
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> minijinja::value::Enumerator {
        minijinja::value::Enumerator::Values(self.values.clone())
    }
}

fn list_method(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match method {
        "count" => {
            let (what,): (&Value,) = from_args(args)?;
            Ok(Value::from(value.try_iter()?.filter(|item| item == what).count()))
        }
        "index" => {
            let (what,): (&Value,) = from_args(args)?;
            let found = value.try_iter()?.position(|item| item == *what);
            found.map(Value::from).ok_or_else(|| wrong_value("the value is not in the list"))
        }
        "copy" => {
            let () = from_args(args)?;
            Ok(value.clone())
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

/// str.isspace(): Unicode's white space, and the four separators that Python counts among it.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}' | '\u{1d}' | '\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub fn split_lines(text: &str, keeps_ends: bool) -> Vec<Value> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_line_end).unwrap_or(rest.len());
        let mut next = end + rest[end..].chars().next().map_or(0, char::len_utf8);
        if rest[end..].starts_with("\r\n") {
            next = end + 2;
        }
        lines.push(Value::from(&rest[..if keeps_ends { next } else { end }]));
        rest = &rest[next..];
    }
    lines
}

fn strip<'a>(text: &'a str, chars: Option<&str>, left: bool, right: bool) -> &'a str {
    let strips = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if left { text.trim_start_matches(strips) } else { text };
    if right {
        text.trim_end_matches(strips)
    } else {
        text
    }
}

pub fn trim<'a>(text: &'a str, chars: Option<&str>) -> &'a str {
    strip(text, chars, true, true)
}

/// At most `limit` cuts; negative: all of them.
fn split_at_blanks(text: &str, limit: i64) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        if limit >= 0 && parts.len() as i64 == limit {
            parts.push(Value::from(rest.trim_end_matches(is_space)));
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        parts.push(Value::from(&rest[..end]));
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

fn split_at_blanks_from_the_right(text: &str, limit: i64) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        if limit >= 0 && parts.len() as i64 == limit {
            parts.push(Value::from(rest.trim_start_matches(is_space)));
            break;
        }
        let begin = rest.rfind(is_space).map_or(0, |at| at + rest[at..].chars().next().map_or(0, char::len_utf8));
        parts.push(Value::from(&rest[begin..]));
        rest = rest[..begin].trim_end_matches(is_space);
    }
    parts.reverse();
    parts
}

fn split(text: &str, from_right: bool, args: &[Value]) -> Result<Value, Error> {
    let (separator, limit, kwargs): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = match separator {
        Some(given) => given,
        None => kwargs.get::<Option<Value>>("sep")?.unwrap_or_default(),
    };
    let limit = match limit {
        Some(given) => given,
        None => kwargs.get::<Option<i64>>("maxsplit")?.unwrap_or(-1),
    };
    kwargs.assert_all_used()?;
    if separator.is_none() || separator.is_undefined() {
        let all = if from_right { split_at_blanks_from_the_right(text, limit) } else { split_at_blanks(text, limit) };
        return Ok(Value::from(all));
    }
    let separator = separator.as_str().ok_or_else(|| wrong_value("split() takes a string"))?.to_string();
    if separator.is_empty() {
        return Err(wrong_value("empty separator"));
    }
    let count = if limit < 0 { usize::MAX } else { (limit as usize).saturating_add(1) };
    let mut parts: Vec<Value> = match from_right {
        false => text.splitn(count, &separator).map(Value::from).collect(),
        true => text.rsplitn(count, &separator).map(Value::from).collect(),
    };
    if from_right {
        parts.reverse();
    }
    Ok(Value::from(parts))
}

/// The part of the text that start and end mean, and the index of its first character.
fn part<'a>(text: &'a str, start: Option<i64>, end: Option<i64>) -> Option<(&'a str, usize)> {
    if start.is_none() && end.is_none() {
        return Some((text, 0));
    }
    let count = text.chars().count() as i64;
    let place = |at: i64| if at < 0 { (at + count).max(0) } else { at };
    let (start, end) = (place(start.unwrap_or(0)), place(end.unwrap_or(count)).min(count));
    if start > end {
        return None;
    }
    let offset = |at: i64| text.char_indices().nth(at as usize).map_or(text.len(), |found| found.0);
    Some((&text[offset(start)..offset(end)], start as usize))
}

fn position(text: &str, from_right: bool, args: &[Value]) -> Result<i64, Error> {
    let (what, start, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
    let Some((within, first)) = part(text, start, end) else { return Ok(-1) };
    let found = if from_right { within.rfind(what) } else { within.find(what) };
    Ok(found.map_or(-1, |at| (first + within[..at].chars().count()) as i64))
}

fn has_affix(text: &str, at_end: bool, args: &[Value]) -> Result<bool, Error> {
    let (what, start, end): (&Value, Option<i64>, Option<i64>) = from_args(args)?;
    let within = part(text, start, end);
    let one = |affix: &Value| -> Result<bool, Error> {
        let affix = affix.as_str().ok_or_else(|| wrong_value("startswith() and endswith() take strings"))?;
        Ok(within.is_some_and(|(within, _)| if at_end { within.ends_with(affix) } else { within.starts_with(affix) }))
    };
    if !what.is_tuple() {
        return one(what);
    }
    for affix in what.try_iter()? {
        if one(&affix)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// str.title(): upper case behind what has no case.
pub fn title(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut is_within = false;
    for c in text.chars() {
        let is_cased = c.is_lowercase() || c.is_uppercase();
        match is_within {
            true => made.extend(c.to_lowercase()),
            false => made.extend(title_case(c)),
        }
        is_within = is_cased;
    }
    made
}

// Python's title case of a character; of the few with one of their own only the ligatures matter: U+01C4 and so on are
// left in upper case.
fn title_case(c: char) -> impl Iterator<Item = char> {
    let upper: Vec<char> = c.to_uppercase().collect();
    let is_ligature = upper.len() > 1;
    upper.into_iter().enumerate().flat_map(move |(index, part)| -> Vec<char> {
        if index > 0 && is_ligature {
            part.to_lowercase().collect()
        } else {
            vec![part]
        }
    })
}

/// str.capitalize()
pub fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => title_case(first).chain(chars.as_str().to_lowercase().chars()).collect(),
        None => String::new(),
    }
}

fn padded(text: &str, width: i64, fill: char, left: usize, right: usize) -> String {
    let count = text.chars().count();
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(count);
    if missing == 0 {
        return text.to_string();
    }
    // As str.center() does it: an odd one goes to the left where the width is odd.
    let before = match (left, right) {
        (1, 1) => missing / 2 + (missing & width as usize & 1),
        (1, 0) => missing,
        _ => 0,
    };
    let fill = |n: usize| std::iter::repeat(fill).take(n);
    fill(before).chain(text.chars()).chain(fill(missing - before)).collect()
}

fn pad(state: &State, text: &str, left: usize, right: usize, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (i64, Option<&str>) = from_args(args)?;
    let mut chars = fill.unwrap_or(" ").chars();
    let (Some(fill), None) = (chars.next(), chars.next()) else {
        return Err(wrong_value("the fill character must be exactly one character long"));
    };
    charge(state, usize::try_from(width).unwrap_or(0).saturating_mul(fill.len_utf8()))?;
    Ok(Value::from(padded(text, width, fill, left, right)))
}

fn all_are(text: &str, is: impl Fn(char) -> bool) -> Value {
    Value::from(!text.is_empty() && text.chars().all(is))
}

// Python's isdigit() is Numeric_Type of Decimal or Digit, isdecimal() Decimal alone, isnumeric() all three.
fn is_decimal(c: char) -> bool {
    c.is_numeric() && !is_other_digit(c) && c.is_alphanumeric() && general_decimal(c)
}

fn general_decimal(c: char) -> bool {
    // Decimal digits stand in runs of ten from a zero on: what is before a run's zero is not numeric in the same run.
    const ZEROS: [u32; 66] = [
        0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
        0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620,
        0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0,
        0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60,
        0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
    ];
    let code = u32::from(c);
    ZEROS.iter().any(|zero| (*zero..zero + 10).contains(&code))
}

fn is_other_digit(c: char) -> bool {
    matches!(c, '²' | '³' | '¹' | '⁰' | '⁴'..='⁹' | '₀'..='₉' | '①'..='⑨' | '⑴'..='⑼' | '⒈'..='⒐' | '⓪' | '⓵'..='⓽'
        | '⓿' | '❶'..='❾' | '➀'..='➈' | '➊'..='➒' | '፩'..='፱' | '᧚' | '\u{10a40}'..='\u{10a43}'
        | '\u{10e60}'..='\u{10e68}' | '\u{11052}'..='\u{1105a}' | '\u{1f100}'..='\u{1f10a}')
}

fn has_case(text: &str, upper: bool) -> bool {
    let is = |c: char| if upper { c.is_uppercase() } else { c.is_lowercase() };
    let is_other = |c: char| if upper { c.is_lowercase() } else { c.is_uppercase() };
    text.chars().any(is) && !text.chars().any(is_other)
}

fn is_title(text: &str) -> bool {
    let (mut is_within, mut has_any) = (false, false);
    for c in text.chars() {
        match (c.is_uppercase(), c.is_lowercase()) {
            (true, _) if is_within => return false,
            (_, true) if !is_within => return false,
            (upper, lower) => {
                is_within = upper || lower;
                has_any |= is_within;
            }
        }
    }
    has_any
}

fn expand_tabs(state: &State, text: &str, size: i64) -> Result<String, Error> {
    let size = usize::try_from(size).unwrap_or(0);
    charge(state, text.matches('\t').count().saturating_mul(size))?;
    let (mut made, mut column) = (String::new(), 0);
    for c in text.chars() {
        match c {
            '\t' if size > 0 => {
                let blanks = size - column % size;
                made.extend(std::iter::repeat(' ').take(blanks));
                column += blanks;
            }
            '\t' => {}
            _ => {
                made.push(c);
                column = if c == '\n' || c == '\r' { 0 } else { column + 1 };
            }
        }
    }
    Ok(made)
}

pub fn replace(state: &State, text: &str, old: &str, new: &str, count: i64) -> Result<String, Error> {
    let found = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
    let times = if count < 0 { found } else { found.min(count as usize) };
    charge(state, text.len().saturating_add(times.saturating_mul(new.len())))?;
    Ok(text.replacen(old, new, times))
}

fn partition(text: &str, separator: &str, from_right: bool) -> Result<Value, Error> {
    if separator.is_empty() {
        return Err(wrong_value("empty separator"));
    }
    let found = if from_right { text.rfind(separator) } else { text.find(separator) };
    let parts = match (found, from_right) {
        (Some(at), _) => [&text[..at], separator, &text[at + separator.len()..]],
        (None, false) => [text, "", ""],
        (None, true) => ["", "", text],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from))))
}

fn joined(state: &State, separator: &str, values: &Value) -> Result<Value, Error> {
    let mut made = String::new();
    for (index, value) in values.try_iter()?.enumerate() {
        let Some(text) = value.as_str() else {
            return Err(wrong_value(format!("sequence item {index}: expected str instance, {} found", value.kind())));
        };
        charge(state, separator.len() + text.len())?;
        if index > 0 {
            made.push_str(separator);
        }
        made.push_str(text);
    }
    Ok(Value::from(made))
}

/// The sum of all numbers in a format: no less than the blanks that it can ask for.
fn widths(text: &str) -> usize {
    let runs = text.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
    runs.fold(0, |sum: usize, run| sum.saturating_add(run.parse().unwrap_or(usize::MAX)))
}

/// Arguments of a format, of which lists and dicts are printed as Python prints them.
pub fn printed(state: &State, args: &[Value]) -> Result<Vec<Value>, Error> {
    args.iter()
        .map(|arg| match arg.kind() {
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable if !arg.is_kwargs() => {
                str_of(state, arg).map(Value::from)
            }
            _ => Ok(arg.clone()),
        })
        .collect()
}

fn string_method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let text = value.as_str().unwrap_or_default();
    let none = || from_args::<()>(args);
    Ok(match method {
        "upper" => none().map(|()| Value::from(text.to_uppercase()))?,
        "lower" => none().map(|()| Value::from(text.to_lowercase()))?,
        "casefold" => none().map(|()| Value::from(text.to_lowercase().replace('ß', "ss").replace('ς', "σ")))?,
        "capitalize" => none().map(|()| Value::from(capitalize(text)))?,
        "title" => none().map(|()| Value::from(title(text)))?,
        "swapcase" => none().map(|()| {
            let swap = |c: char| -> String {
                if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
            };
            Value::from(text.chars().map(swap).collect::<String>())
        })?,
        "islower" => none().map(|()| Value::from(has_case(text, false)))?,
        "isupper" => none().map(|()| Value::from(has_case(text, true)))?,
        "istitle" => none().map(|()| Value::from(is_title(text)))?,
        "isspace" => none().map(|()| all_are(text, is_space))?,
        "isalpha" => none().map(|()| all_are(text, |c| c.is_alphabetic() && !c.is_numeric()))?,
        "isalnum" => none().map(|()| all_are(text, char::is_alphanumeric))?,
        "isnumeric" => none().map(|()| all_are(text, char::is_numeric))?,
        "isdigit" => none().map(|()| all_are(text, |c| is_decimal(c) || is_other_digit(c)))?,
        "isdecimal" => none().map(|()| all_are(text, is_decimal))?,
        "isascii" => none().map(|()| Value::from(text.is_ascii()))?,
        "isidentifier" => none().map(|()| {
            let begins = text.starts_with(|c: char| c == '_' || c.is_alphabetic());
            Value::from(begins && text.chars().all(|c| c == '_' || c.is_alphanumeric()))
        })?,
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            Value::from(strip(text, chars, method != "rstrip", method != "lstrip"))
        }
        "removeprefix" | "removesuffix" => {
            let (affix,): (&str,) = from_args(args)?;
            let rest = if method == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
            Value::from(rest.unwrap_or(text))
        }
        "replace" => {
            let (old, new, count): (&str, &str, Option<i64>) = from_args(args)?;
            Value::from(replace(state, text, old, new, count.unwrap_or(-1))?)
        }
        "split" => split(text, false, args)?,
        "rsplit" => split(text, true, args)?,
        "splitlines" => {
            let (keeps_ends, kwargs): (Option<bool>, Kwargs) = from_args(args)?;
            let keeps_ends = keeps_ends.or(kwargs.get("keepends")?);
            kwargs.assert_all_used()?;
            Value::from(split_lines(text, keeps_ends.unwrap_or(false)))
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            partition(text, separator, method == "rpartition")?
        }
        "count" => {
            let (what, start, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
            let within = part(text, start, end);
            Value::from(within.map_or(0, |(within, _)| {
                if what.is_empty() { within.chars().count() + 1 } else { within.matches(what).count() }
            }))
        }
        "find" | "rfind" => Value::from(position(text, method == "rfind", args)?),
        "index" | "rindex" => match position(text, method == "rindex", args)? {
            -1 => return Err(wrong_value("substring not found")),
            at => Value::from(at),
        },
        "startswith" | "endswith" => Value::from(has_affix(text, method == "endswith", args)?),
        "join" => {
            let (values,): (&Value,) = from_args(args)?;
            joined(state, text, values)?
        }
        "center" => pad(state, text, 1, 1, args)?,
        "ljust" => pad(state, text, 0, 1, args)?,
        "rjust" => pad(state, text, 1, 0, args)?,
        "zfill" => {
            let (width,): (i64,) = from_args(args)?;
            charge(state, usize::try_from(width).unwrap_or(0))?;
            let sign = usize::from(text.starts_with(['+', '-']));
            let digits = padded(&text[sign..], width.saturating_sub(sign as i64), '0', 1, 0);
            Value::from(format!("{}{digits}", &text[..sign]))
        }
        "expandtabs" => {
            let (size,): (Option<i64>,) = from_args(args)?;
            Value::from(expand_tabs(state, text, size.unwrap_or(8))?)
        }
        "format" => {
            charge(state, widths(text))?;
            format(FormatStyle::StrFormat, text, &printed(state, args)?).map(Value::from)?
        }
        _ => {
            return Err(wrong_value(format!("str.{method}() is not supported in templates")));
        }
    })
}
