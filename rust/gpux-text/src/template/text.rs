//! Values as Python prints them: str() and repr().

use minijinja::value::{ObjectRepr, ValueKind};
use minijinja::{Error, State, Value};

use super::methods::View;
use super::values::{bytes_left, PRINTED_BYTES_PER_STEP};

pub fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

pub fn is_integer(value: &Value) -> bool {
    value.kind() == ValueKind::Number && value.is_integer()
}

/// repr() of a float: the fewest digits that give it back, with an exponent below 1e-4 and from 1e16 on.
pub fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_string();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = number.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

pub fn number_text(value: &Value) -> String {
    match is_float(value) {
        true => f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float_text),
        false => value.to_string(),
    }
}

/// str(): what a template prints.
pub fn str_of(state: &State, value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_string());
    }
    match value.kind() {
        ValueKind::Number => Ok(number_text(value)),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
            let mut out = String::new();
            write_repr(value, bytes_left(state), &mut out);
            state.consume_fuel((out.len() / PRINTED_BYTES_PER_STEP) as u64)?;
            Ok(out)
        }
        _ => Ok(value.to_string()),
    }
}

// Stops at the budget, so that the fuel for what was written is an error.
fn write_repr(value: &Value, budget: usize, out: &mut String) {
    if out.len() > budget {
        return;
    }
    if let Some(view) = value.downcast_object_ref::<View>() {
        out.push_str(view.name);
        out.push('(');
        write_repr(&Value::from(view.values.clone()), budget, out);
        out.push(')');
        return;
    }
    match value.kind() {
        ValueKind::String => write_string_repr(value.as_str().unwrap_or_default(), out),
        ValueKind::Number => out.push_str(&number_text(value)),
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Seq | ValueKind::Iterable => {
            let is_tuple = value.is_tuple();
            out.push(if is_tuple { '(' } else { '[' });
            let mut count = 0;
            for item in value.try_iter().into_iter().flatten() {
                if count > 0 {
                    out.push_str(", ");
                }
                write_repr(&item, budget, out);
                count += 1;
                if out.len() > budget {
                    return;
                }
            }
            if is_tuple && count == 1 {
                out.push(',');
            }
            out.push(if is_tuple { ')' } else { ']' });
        }
        ValueKind::Map if is_dict(value) => {
            out.push('{');
            for (index, key) in value.try_iter().into_iter().flatten().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(&key, budget, out);
                out.push_str(": ");
                write_repr(&value.get_item(&key).unwrap_or_default(), budget, out);
                if out.len() > budget {
                    return;
                }
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
}

/// Objects of the engine that have attributes, as dicts have items. They can be told by the names of their types only.
const NO_DICTS: [&str; 3] = ["::Namespace", "::Loop", "::Macro"];

pub fn is_dict(value: &Value) -> bool {
    value.as_object().is_some_and(|object| {
        object.repr() == ObjectRepr::Map && !NO_DICTS.iter().any(|name| object.type_name().ends_with(name))
    })
}

pub fn is_callable(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.repr() == ObjectRepr::Plain || object.type_name().ends_with("::Macro"))
}

// As Rust's Debug for str prints it, which has the same definition: no control, format, unassigned or private
// character, and no separator but the space. The letter keeps a combining character from being the first one.
fn is_printable(c: char) -> bool {
    c == ' ' || c == '\'' || c == '"' || c == '\\' || format!("{:?}", format!("a{c}")).chars().nth(2) == Some(c)
}

fn write_string_repr(text: &str, out: &mut String) {
    use std::fmt::Write;
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
}
