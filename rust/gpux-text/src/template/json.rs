//! JSON as Python's json module reads and writes it: numbers keep their kind and are rounded once, keys their order.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

use super::text::{float_text, is_float, is_integer, number_text};
use super::values::{bytes_left, PRINTED_BYTES_PER_STEP};

/// Values deeper than this are refused: reading, comparing and writing them recurse.
pub const MAX_DEPTH: usize = 64;

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

pub fn read(text: &str) -> Result<Value, String> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.skip_blanks();
    match reader.at == text.len() {
        true => Ok(value),
        false => Err(reader.refusal("more than one value")),
    }
}

impl<'a> Reader<'a> {
    fn refusal(&self, what: &str) -> String {
        format!("not JSON at byte offset {}: {what}", self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(self.refusal(&format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.skip_blanks();
        for (word, value) in [("null", Value::from(())), ("true", Value::from(true)), ("false", Value::from(false))] {
            if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Value::from(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => Err(self.refusal("no value")),
            None => Err(self.refusal("it ends early")),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut values = Vec::new();
        if self.take(b']') {
            return Ok(Value::from(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(Value::from(values));
            }
            if !self.take(b',') {
                return Err(self.refusal("a list needs ',' or ']'"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut pairs = Vec::new();
        if self.take(b'}') {
            return Ok(Value::from_pairs(pairs));
        }
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'"') {
                return Err(self.refusal("an object needs a key"));
            }
            let key = Value::from(self.string()?);
            if !self.take(b':') {
                return Err(self.refusal("a key needs ':'"));
            }
            pairs.push((key, self.value(depth + 1)?));
            if self.take(b'}') {
                return Ok(Value::from_pairs(pairs));
            }
            if !self.take(b',') {
                return Err(self.refusal("an object needs ',' or '}'"));
            }
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let begin = self.at;
        let digits = |reader: &mut Self| {
            let first = reader.at;
            while matches!(reader.peek(), Some(b'0'..=b'9')) {
                reader.at += 1;
            }
            reader.at - first
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let first = self.at;
        let whole = digits(self);
        if whole == 0 || (whole > 1 && self.text.as_bytes()[first] == b'0') {
            return Err(self.refusal("no number"));
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            if digits(self) == 0 {
                return Err(self.refusal("no number"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            integer = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if digits(self) == 0 {
                return Err(self.refusal("no number"));
            }
        }
        let text = &self.text[begin..self.at];
        if integer {
            return match (text.parse::<i64>(), text.parse::<i128>()) {
                (Ok(number), _) => Ok(Value::from(number)),
                (_, Ok(number)) => Ok(Value::from(number)),
                _ => Err(self.refusal("an integer of more than 127 bits")),
            };
        }
        text.parse::<f64>().map(Value::from).map_err(|_| self.refusal("no number"))
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut made = String::new();
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f)).unwrap_or(rest.len());
            made.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(made);
                }
                Some(b'\\') => self.escape(&mut made)?,
                Some(_) => return Err(self.refusal("a control character in a string")),
                None => return Err(self.refusal("it ends early")),
            }
        }
    }

    fn escape(&mut self, made: &mut String) -> Result<(), String> {
        self.at += 2;
        let c = match self.text.as_bytes().get(self.at - 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(made),
            _ => return Err(self.refusal("no escape")),
        };
        made.push(c);
        Ok(())
    }

    fn four_digits(&mut self) -> Result<u32, String> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).filter(|all| all.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else { return Err(self.refusal("no escape")) };
        self.at += 4;
        Ok(digits.iter().fold(0, |sum, digit| sum * 16 + char::from(*digit).to_digit(16).unwrap_or(0)))
    }

    fn unicode_escape(&mut self, made: &mut String) -> Result<(), String> {
        let mut code = self.four_digits()?;
        if (0xd800..0xdc00).contains(&code) && self.text.as_bytes()[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let low = self.four_digits()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            }
        }
        made.push(char::from_u32(code).ok_or_else(|| self.refusal("half of a surrogate pair"))?);
        Ok(())
    }
}

/// The arguments of json.dumps().
pub struct Style {
    pub ensure_ascii: bool,
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

pub fn write(state: &State, value: &Value, style: &Style) -> Result<String, Error> {
    let mut out = String::new();
    write_value(value, style, 0, bytes_left(state), &mut out)?;
    state.consume_fuel((out.len() / PRINTED_BYTES_PER_STEP) as u64)?;
    Ok(out)
}

fn line(style: &Style, level: usize, out: &mut String) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        for _ in 0..level {
            out.push_str(indent);
        }
    }
}

// Stops at the budget, so that the fuel for what was written is an error.
fn write_value(value: &Value, style: &Style, level: usize, budget: usize, out: &mut String) -> Result<(), Error> {
    if out.len() > budget {
        return Ok(());
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if is_integer(value) => out.push_str(&value.to_string()),
        ValueKind::Number => out.push_str(&json_float(value)),
        ValueKind::String => write_string(value.as_str().unwrap_or_default(), style.ensure_ascii, out),
        ValueKind::Seq => {
            let mut is_empty = true;
            out.push('[');
            for item in value.try_iter()? {
                if !std::mem::replace(&mut is_empty, false) {
                    out.push_str(&style.item_separator);
                }
                line(style, level + 1, out);
                write_value(&item, style, level + 1, budget, out)?;
                if out.len() > budget {
                    return Ok(());
                }
            }
            if !is_empty {
                line(style, level, out);
            }
            out.push(']');
        }
        ValueKind::Map => write_map(value, style, level, budget, out)?,
        other => {
            let name = if other == ValueKind::Undefined { "Undefined".to_string() } else { other.to_string() };
            return Err(Error::new(
                ErrorKind::BadSerialization,
                format!("Object of type {name} is not JSON serializable"),
            ));
        }
    }
    Ok(())
}

fn write_map(value: &Value, style: &Style, level: usize, budget: usize, out: &mut String) -> Result<(), Error> {
    let mut keys: Vec<Value> = value.try_iter()?.collect();
    if style.sort_keys {
        keys.sort();
    }
    out.push('{');
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            out.push_str(&style.item_separator);
        }
        line(style, level + 1, out);
        let name = match key.kind() {
            ValueKind::String => key.to_string(),
            ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_string(),
            ValueKind::None => "null".to_string(),
            ValueKind::Number if is_float(key) => json_float(key),
            ValueKind::Number => number_text(key),
            _ => {
                return Err(Error::new(
                    ErrorKind::BadSerialization,
                    "keys must be str, int, float, bool or None",
                ))
            }
        };
        write_string(&name, style.ensure_ascii, out);
        out.push_str(&style.key_separator);
        write_value(&value.get_item(key)?, style, level + 1, budget, out)?;
        if out.len() > budget {
            return Ok(());
        }
    }
    if !keys.is_empty() {
        line(style, level, out);
    }
    out.push('}');
    Ok(())
}

fn json_float(value: &Value) -> String {
    match f64::try_from(value.clone()) {
        Ok(number) if number.is_nan() => "NaN".to_string(),
        Ok(number) if number.is_infinite() => if number > 0.0 { "Infinity" } else { "-Infinity" }.to_string(),
        Ok(number) => float_text(number),
        Err(_) => value.to_string(),
    }
}

fn write_string(text: &str, ensure_ascii: bool, out: &mut String) {
    use std::fmt::Write;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 || (ensure_ascii && !(' '..='~').contains(&c)) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
