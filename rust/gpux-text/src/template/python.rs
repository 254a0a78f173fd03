//! Jinja's environment as transformers sets it up: its functions, filters and tests, with Python's meaning of values.

use std::cmp::Ordering;

use minijinja::value::{Kwargs, Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value};

use super::json;
use super::methods;
use super::text::{is_callable, is_dict, is_integer, str_of};
use super::time::{local_time, Now};
use super::values::{charge, kept, kept_in_namespace};

type Outcome<T> = Result<T, Error>;

pub const FILTERS: [&str; 43] = [
    "abs", "attr", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e", "escape", "first",
    "float", "format", "groupby", "indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max",
    "min", "reject", "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "slice", "sort",
    "string", "sum", "title", "tojson", "trim", "unique", "upper",
];
pub const TESTS: [&str; 39] = [
    "!=", "<", "<=", "==", ">", ">=", "boolean", "callable", "defined", "divisibleby", "eq", "equalto", "escaped", "even", "false",
    "filter", "float", "ge", "greaterthan", "gt", "in", "integer", "iterable", "le", "lessthan", "lower", "lt",
    "mapping", "ne", "none", "number", "odd", "sameas", "sequence", "string", "test", "true", "undefined", "upper",
];

/// What raise_exception() is told; taken from the chain of errors by its type.
#[derive(Debug)]
pub struct Raised(pub String);

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

fn wrong_value(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

fn require_defined(value: &Value) -> Outcome<()> {
    match value.is_undefined() {
        true => Err(Error::from(ErrorKind::UndefinedError)),
        false => Ok(()),
    }
}

fn concat(state: &State, left: &Value, right: &Value) -> Outcome<Value> {
    let (mut text, right) = (str_of(state, left)?, str_of(state, right)?);
    charge(state, text.len() + right.len())?;
    text.push_str(&right);
    Ok(Value::from(text))
}

/// What `+` and `*` gave: of lists the engine makes a lazy sequence, which is no list.
fn list(state: &State, value: &Value) -> Outcome<Value> {
    if value.kind() != ValueKind::Iterable {
        return kept(state, value);
    }
    charge(state, value.len().unwrap_or(0).saturating_mul(64))?;
    kept(state, &Value::from(value.try_iter()?.collect::<Vec<Value>>()))
}

/// What a loop runs over: an undefined value has no items, None is an error.
fn iterable(state: &State, value: &Value) -> Outcome<Value> {
    charge(state, value.as_str().map_or(0, |text| text.len() * 64))?;
    if value.is_none() {
        return Err(wrong_value("'NoneType' object is not iterable"));
    }
    // Of a string the engine does not know how many items there are.
    Ok(match value.as_str() {
        Some(text) => Value::from(text.chars().map(|c| Value::from(c.to_string())).collect::<Vec<_>>()),
        None => value.clone(),
    })
}

/// The order of two values, which only values of one type have.
fn order(left: &Value, right: &Value) -> Outcome<Option<Ordering>> {
    require_defined(left)?;
    require_defined(right)?;
    let is_number = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    let is_comparable = match (left.kind(), right.kind()) {
        (ValueKind::String, ValueKind::String) => true,
        (ValueKind::Seq, ValueKind::Seq) => left.is_tuple() == right.is_tuple(),
        _ => is_number(left) && is_number(right),
    };
    if !is_comparable {
        return Err(wrong_value(format!("{} and {} have no order", left.kind(), right.kind())));
    }
    let is_nan = |value: &Value| value.kind() == ValueKind::Number && value != value;
    Ok((!is_nan(left) && !is_nan(right)).then(|| left.cmp(right)))
}

fn less(left: &Value, right: &Value) -> Outcome<bool> {
    Ok(order(left, right)?.is_some_and(Ordering::is_lt))
}

fn less_or_equal(left: &Value, right: &Value) -> Outcome<bool> {
    Ok(order(left, right)?.is_some_and(Ordering::is_le))
}

/// `left % right`: formats, or divides.
fn remainder(state: &mut State, left: &Value, right: &Value) -> Outcome<Value> {
    if left.as_str().is_some() {
        let mut args: Vec<Value> = match right.is_tuple() {
            true => right.try_iter()?.collect(),
            // "%(name)s" takes its values from a dict.
            false => vec![right.clone()],
        };
        if !is_dict(right) {
            args = methods::printed(state, &args)?;
        }
        args.insert(0, left.clone());
        return state.apply_filter("format", &args);
    }
    require_defined(left)?;
    require_defined(right)?;
    let failed = || wrong_value("unsupported operands of %, or a division by zero");
    if left.is_integer() && right.is_integer() {
        let (a, b): (i128, i128) = (left.clone().try_into()?, right.clone().try_into()?);
        let rest = a.checked_rem(b).ok_or_else(failed)?;
        return Ok(Value::from(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }));
    }
    let number = |value: &Value| match value.kind() {
        ValueKind::Number | ValueKind::Bool => f64::try_from(value.clone()).map_err(|_| failed()),
        _ => Err(failed()),
    };
    let (a, b) = (number(left)?, number(right)?);
    if b == 0.0 {
        return Err(failed());
    }
    let rest = a % b;
    Ok(Value::from(match rest != 0.0 {
        true if (rest < 0.0) != (b < 0.0) => rest + b,
        true => rest,
        false => 0.0f64.copysign(b),
    }))
}

/// The places that a slice of `count` elements takes.
fn slice_places(count: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<usize> {
    let (lowest, highest) = if step > 0 { (0, count) } else { (-1, count - 1) };
    let clamp = |at: i64| if at < 0 { (at + count).max(lowest) } else { at.min(highest) };
    let (first, last) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
    let (start, stop) = (start.map_or(first, clamp), stop.map_or(last, clamp));
    let mut places = Vec::new();
    let mut at = start;
    while (step > 0 && at < stop) || (step < 0 && at > stop) {
        places.push(at as usize);
        at = at.saturating_add(step);
    }
    places
}

fn slice(state: &State, value: &Value, start: &Value, stop: &Value, step: &Value) -> Outcome<Value> {
    let bound = |value: &Value| -> Outcome<Option<i64>> {
        if value.is_none() {
            return Ok(None);
        }
        match value.kind() {
            ValueKind::Number if is_integer(value) => {
                let number: i128 = value.clone().try_into()?;
                Ok(Some(number.clamp(-(1 << 60), 1 << 60) as i64))
            }
            ValueKind::Bool => Ok(Some(i64::from(value.is_true()))),
            _ => Err(wrong_value("slice indices must be integers or None")),
        }
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(wrong_value("slice step cannot be zero"));
    }
    if let Some(text) = value.as_str() {
        charge(state, text.len())?;
        if text.is_ascii() {
            let bytes = text.as_bytes();
            let places = slice_places(bytes.len() as i64, start, stop, step);
            return Ok(Value::from(places.into_iter().map(|at| char::from(bytes[at])).collect::<String>()));
        }
        let chars: Vec<char> = text.chars().collect();
        let places = slice_places(chars.len() as i64, start, stop, step);
        return Ok(Value::from(places.into_iter().map(|at| chars[at]).collect::<String>()));
    }
    if value.kind() != ValueKind::Seq && value.kind() != ValueKind::Iterable {
        // As Jinja's getitem(): what cannot be sliced gives an undefined value, and an undefined one an error.
        require_defined(value)?;
        return Ok(Value::UNDEFINED);
    }
    let all: Vec<Value> = value.try_iter()?.collect();
    charge(state, all.len() * 64)?;
    let places = slice_places(all.len() as i64, start, stop, step);
    let picked: Vec<Value> = places.into_iter().map(|at| all[at].clone()).collect();
    Ok(match value.is_tuple() {
        true => Value::from(Tuple::from(picked)),
        false => Value::from(picked),
    })
}

fn item(value: &Value, key: &Value) -> Outcome<Value> {
    methods::item(value, key)
}

fn attribute(value: &Value, name: &str) -> Outcome<Value> {
    methods::attribute(value, name)
}

fn raise_exception(state: &State, message: &Value) -> Outcome<Value> {
    let message = str_of(state, message)?;
    Err(wrong_value("raise_exception").with_source(Raised(message)))
}

fn strftime_now(state: &State, pattern: &str) -> Outcome<String> {
    let now = state.lookup(NOW).and_then(|now| now.downcast_object::<Now>());
    let now = now.ok_or_else(|| wrong_value("strftime_now has no time"))?;
    local_time(now.seconds, pattern).ok_or_else(|| wrong_value("strftime_now cannot write this format"))
}

/// The name under which the time of a rendering is.
pub const NOW: &str = " now";

fn tojson(state: &State, value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Outcome<Value> {
    // tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)
    let argument = |index: usize, name: &str| -> Outcome<Value> {
        let named: Option<Value> = kwargs.get(name)?;
        Ok(args.get(index).cloned().or(named).unwrap_or_default())
    };
    let (ensure_ascii, indent) = (argument(0, "ensure_ascii")?, argument(1, "indent")?);
    let (separators, sort_keys) = (argument(2, "separators")?, argument(3, "sort_keys")?);
    kwargs.assert_all_used()?;
    let indent = match indent.kind() {
        ValueKind::None | ValueKind::Undefined => None,
        ValueKind::String => Some(str_of(state, &indent)?),
        _ => {
            let count: i64 = indent.try_into()?;
            charge(state, usize::try_from(count).unwrap_or(0))?;
            Some(" ".repeat(usize::try_from(count).unwrap_or(0)))
        }
    };
    let mut pair: Vec<Value> = Vec::new();
    if !separators.is_none() && !separators.is_undefined() {
        pair = separators.try_iter()?.collect();
    }
    let (item_separator, key_separator) = match &pair[..] {
        [item, key] => (str_of(state, item)?, str_of(state, key)?),
        [] => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
        _ => return Err(wrong_value("separators are two strings")),
    };
    let style = json::Style {
        ensure_ascii: ensure_ascii.is_true(),
        indent,
        item_separator,
        key_separator,
        sort_keys: sort_keys.is_true(),
    };
    json::write(state, value, &style).map(Value::from)
}

fn join(state: &State, value: &Value, separator: Option<Value>, attribute: Option<Value>, kwargs: Kwargs) -> Outcome<Value> {
    let separator = separator.or(kwargs.get("d")?).map(|separator| str_of(state, &separator)).transpose()?;
    let separator = separator.unwrap_or_default();
    let attribute: Option<Value> = attribute.or(kwargs.get("attribute")?);
    kwargs.assert_all_used()?;
    let mut text = String::new();
    if value.is_undefined() {
        return Ok(Value::from(text));
    }
    for (index, item) in value.try_iter()?.enumerate() {
        let item = match &attribute {
            Some(path) => path_of(&item, path)?,
            None => item,
        };
        let part = str_of(state, &item)?;
        charge(state, separator.len() + part.len())?;
        if index > 0 {
            text.push_str(&separator);
        }
        text.push_str(&part);
    }
    Ok(Value::from(text))
}

/// An attribute with dots, as filters take it: parts of digits are indices.
fn path_of(value: &Value, path: &Value) -> Outcome<Value> {
    let Some(names) = path.as_str() else { return methods::item(value, path) };
    let mut found = value.clone();
    for name in names.split('.') {
        let key = match name.parse::<i64>() {
            Ok(index) if name.bytes().all(|c| c.is_ascii_digit()) => Value::from(index),
            _ => Value::from(name),
        };
        found = methods::item(&found, &key)?;
    }
    Ok(found)
}

/// Unlike `value.name`, this finds attributes alone: a dict has its methods, and no items.
fn attr(value: &Value, name: &str) -> Outcome<Value> {
    match value.kind() {
        ValueKind::Map if !is_dict(value) => value.get_attr(name),
        ValueKind::Map => methods::attribute(&Value::from_pairs(Vec::<(Value, Value)>::new()), name),
        _ => methods::attribute(value, name),
    }
}

fn default(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Outcome<Value> {
    // Not an Option: None is a default like any other.
    let argument = |index: usize, name: &str| -> Outcome<Option<Value>> {
        if let Some(given) = args.get(index) {
            return Ok(Some(given.clone()));
        }
        kwargs.has(name).then(|| kwargs.get(name)).transpose()
    };
    let (otherwise, boolean) = (argument(0, "default_value")?, argument(1, "boolean")?);
    kwargs.assert_all_used()?;
    let is_missing = value.is_undefined() || (boolean.is_some_and(|given| given.is_true()) && !value.is_true());
    Ok(if is_missing { otherwise.unwrap_or_else(|| Value::from("")) } else { value.clone() })
}

fn trim(state: &State, value: &Value, chars: Option<&str>) -> Outcome<Value> {
    Ok(Value::from(methods::trim(&str_of(state, value)?, chars)))
}

/// Jinja's title filter, which is not str.title(): words begin behind blanks, '-' and brackets.
fn title(state: &State, value: &Value) -> Outcome<Value> {
    let text = str_of(state, value)?;
    let mut made = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        match begins {
            true => made.extend(c.to_uppercase()),
            false => made.extend(c.to_lowercase()),
        }
        begins = methods::is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
    }
    Ok(Value::from(made))
}

fn replace(state: &State, value: &Value, old: &Value, new: &Value, count: Option<i64>) -> Outcome<Value> {
    let (text, old, new) = (str_of(state, value)?, str_of(state, old)?, str_of(state, new)?);
    methods::replace(state, &text, &old, &new, count.unwrap_or(-1)).map(Value::from)
}

fn indent(state: &State, value: &str, args: Rest<Value>, kwargs: Kwargs) -> Outcome<Value> {
    let argument = |index: usize, name: &str| -> Outcome<Option<Value>> {
        let named: Option<Value> = kwargs.get(name)?;
        Ok(args.get(index).cloned().or(named))
    };
    let (width, first, blank) = (argument(0, "width")?, argument(1, "first")?, argument(2, "blank")?);
    kwargs.assert_all_used()?;
    let indention = match width {
        None => "    ".to_string(),
        Some(width) if width.as_str().is_some() => str_of(state, &width)?,
        Some(width) => {
            let count: i64 = width.try_into()?;
            charge(state, usize::try_from(count).unwrap_or(0))?;
            " ".repeat(usize::try_from(count).unwrap_or(0))
        }
    };
    let (first, blank) = (first.is_some_and(|v| v.is_true()), blank.is_some_and(|v| v.is_true()));
    let lines = methods::split_lines(&format!("{value}\n"), false);
    charge(state, lines.len().saturating_mul(indention.len()))?;
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let line = line.as_str().unwrap_or_default();
        if index > 0 {
            text.push('\n');
        }
        if if index == 0 { first } else { blank || !line.is_empty() } {
            text.push_str(&indention);
        }
        text.push_str(line);
    }
    Ok(Value::from(text))
}

fn int(value: &Value, otherwise: Option<Value>, base: Option<u32>, kwargs: Kwargs) -> Outcome<Value> {
    let otherwise = otherwise.or(kwargs.get("default")?).unwrap_or_else(|| Value::from(0));
    let base = base.or(kwargs.get("base")?).unwrap_or(10);
    kwargs.assert_all_used()?;
    if let Some(text) = value.as_str() {
        let text = methods::trim(text, None).replace('_', "");
        let (sign, digits) = text.strip_prefix('-').map_or((1, text.strip_prefix('+').unwrap_or(&text)), |rest| (-1, rest));
        let prefix = match base {
            16 => ["0x", "0X"],
            8 => ["0o", "0O"],
            2 => ["0b", "0B"],
            _ => ["", ""],
        };
        let digits = prefix.iter().find_map(|prefix| digits.strip_prefix(prefix)).unwrap_or(digits);
        if let (true, Ok(number)) = ((2..=36).contains(&base), i128::from_str_radix(digits, base.clamp(2, 36))) {
            if !digits.starts_with(['+', '-']) {
                return Ok(Value::from(sign * number));
            }
        }
        return Ok(text.parse::<f64>().ok().filter(|n| n.is_finite()).map_or(otherwise, |n| Value::from(n.trunc() as i128)));
    }
    match value.kind() {
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        ValueKind::Number if value.is_integer() => Ok(value.clone()),
        ValueKind::Number => {
            let number = f64::try_from(value.clone())?;
            Ok(if number.is_finite() { Value::from(number.trunc() as i128) } else { otherwise })
        }
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        _ => Ok(otherwise),
    }
}

fn float(value: &Value, otherwise: Option<Value>, kwargs: Kwargs) -> Outcome<Value> {
    let otherwise = otherwise.or(kwargs.get("default")?).unwrap_or_else(|| Value::from(0.0));
    kwargs.assert_all_used()?;
    if let Some(text) = value.as_str() {
        let text = methods::trim(text, None).replace('_', "");
        return Ok(text.parse::<f64>().map_or(otherwise, Value::from));
    }
    match value.kind() {
        ValueKind::Bool => Ok(Value::from(f64::from(u8::from(value.is_true())))),
        ValueKind::Number => Ok(Value::from(f64::try_from(value.clone())?)),
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        _ => Ok(otherwise),
    }
}

fn center(state: &mut State, value: &Value, width: Option<i64>) -> Outcome<Value> {
    let text = Value::from(str_of(state, value)?);
    methods::call(state, &text, "center", &[Value::from(width.unwrap_or(80))])
}

fn dictsort(state: &mut State, value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Outcome<Value> {
    // dictsort(value, case_sensitive=False, by="key", reverse=False); the engine's takes them by name only.
    let mut named: Vec<(&str, Value)> = Vec::new();
    for (name, given) in ["case_sensitive", "by", "reverse"].into_iter().zip(args.iter()) {
        named.push((name, given.clone()));
    }
    for name in kwargs.args() {
        named.push((name, kwargs.get(name)?));
    }
    state.apply_filter(ENGINE_DICTSORT, &[value.clone(), Kwargs::from_iter(named).into()])
}

const ENGINE_DICTSORT: &str = " dictsort";

fn dict(args: Rest<Value>, kwargs: Kwargs) -> Outcome<Value> {
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    if args.len() > 1 {
        return Err(wrong_value("dict expected at most 1 argument"));
    }
    if let Some(from) = args.first() {
        for one in from.try_iter()? {
            pairs.push(match is_dict(from) {
                true => (one.clone(), from.get_item(&one)?),
                false => match &one.try_iter()?.collect::<Vec<_>>()[..] {
                    [key, value] => (key.clone(), value.clone()),
                    _ => return Err(wrong_value("dict() takes pairs")),
                },
            });
        }
    }
    for name in kwargs.args() {
        pairs.push((Value::from(name), kwargs.get(name)?));
    }
    Ok(Value::from_pairs(pairs))
}

fn is_iterable(value: &Value) -> bool {
    value.is_undefined() || matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable)
}

// What has a length and can be indexed: strings and dicts as well.
fn is_sequence(value: &Value) -> bool {
    value.is_undefined() || matches!(value.kind(), ValueKind::String | ValueKind::Seq) || is_dict(value)
}

// A bool is an int in Python.
fn is_number(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
}

/// A filter or a test that there is not.
fn unknown(message: String) -> Outcome<Value> {
    Err(Error::new(ErrorKind::UnknownFilter, message))
}

fn is_only_integer(value: &Value) -> bool {
    is_integer(value)
}

fn print(out: &mut Output, state: &mut State, value: &Value) -> Outcome<()> {
    let written = match value.as_str() {
        Some(text) => out.write_str(text),
        None => out.write_str(&str_of(state, value)?),
    };
    written.map_err(|_| Error::from(ErrorKind::WriteFailure))
}

pub fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_formatter(print);
    env.set_unknown_method_callback(methods::call);
    env.remove_global("debug");
    let engine_namespace = env.globals().find(|global| global.0 == "namespace").map(|global| global.1);
    if let Some(make) = engine_namespace {
        env.add_function("namespace", move |state: &mut State, args: Rest<ValueOrKwargs>| -> Outcome<Value> {
            let args: Vec<Value> = args.0.into_iter().map(ValueOrKwargs::into_value).collect();
            for arg in &args {
                kept_in_namespace(state, arg)?;
            }
            make.call(state, &args)
        });
    }
    env.add_function(" concat", concat);
    env.add_function(" list", list);
    env.add_function(" iterable", iterable);
    env.add_function(" kept", kept);
    env.add_function(" kept in namespace", kept_in_namespace);
    env.add_function(" less", less);
    env.add_function(" less or equal", less_or_equal);
    env.add_function(" remainder", remainder);
    env.add_function(" slice", slice);
    env.add_function(" item", item);
    env.add_function(" attribute", attribute);
    env.add_function(" unknown", unknown);
    env.add_function("raise_exception", raise_exception);
    env.add_function("strftime_now", strftime_now);
    env.add_function("dict", dict);
    env.add_filter(ENGINE_DICTSORT, minijinja::filters::dictsort);
    env.add_filter("dictsort", dictsort);
    env.add_filter("attr", attr);
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_filter("tojson", tojson);
    env.add_filter("join", join);
    env.add_filter("trim", trim);
    env.add_filter("title", title);
    env.add_filter("replace", replace);
    env.add_filter("indent", indent);
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_filter("center", center);
    env.add_filter("string", |state: &State, value: &Value| str_of(state, value));
    env.add_filter("upper", |state: &State, value: &Value| str_of(state, value).map(|text| text.to_uppercase()));
    env.add_filter("lower", |state: &State, value: &Value| str_of(state, value).map(|text| text.to_lowercase()));
    env.add_filter("capitalize", |state: &State, value: &Value| {
        str_of(state, value).map(|text| methods::capitalize(&text))
    });
    env.add_test("callable", is_callable);
    env.add_test("iterable", is_iterable);
    env.add_test("sequence", is_sequence);
    env.add_test("number", is_number);
    env.add_test("integer", is_only_integer);
    env.add_test("mapping", is_dict);
    env
}
