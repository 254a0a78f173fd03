//! Regular expressions as llguidance reads them exactly.

use llguidance::regex_to_lark;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition};

/// The expression, written so that llguidance reads the same; an error says what is wrong with it, and where.
pub fn checked(text: &str) -> Result<String, String> {
    let hir = parse(text)?;
    check(&hir)?;
    Ok(hir.to_string())
}

/// Control characters for which JSON has no escape of one letter.
const UNWRITTEN: [(char, char); 4] = [('\0', '\x07'), ('\x0b', '\x0b'), ('\x0e', '\x1f'), ('\x7f', '\x7f')];

/// Whether a constraint never writes this character in a string.
pub fn is_unwritten(character: char) -> bool {
    UNWRITTEN.iter().any(|(first, last)| (first..=last).contains(&&character))
}

/// A regular expression for all texts that a constraint writes in a string.
pub fn written_text() -> String {
    let class: String = UNWRITTEN.iter().map(|(first, last)| format!("\\x{:02x}-\\x{:02x}", *first as u32, *last as u32)).collect();
    format!("[^{class}]*")
}

/// The same for the strings of JSON schemas, where \d and \w are ASCII, as in JavaScript.
pub fn for_strings(text: &str) -> Result<String, String> {
    parse(text)?;
    let hir = parse(&regex_to_lark(text, "dw"))?;
    check(&hir)?;
    Ok(without_control_characters(&hir).to_string())
}

/// A class of all control characters would let llguidance write \" and \\ too, also where it has neither. Those that
/// have no short escape are never written in a string.
fn without_control_characters(hir: &Hir) -> Hir {
    let all = |parts: &[Hir]| parts.iter().map(without_control_characters).collect();
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            let mut class = class.clone();
            class.difference(&ClassUnicode::new(UNWRITTEN.map(|(first, last)| ClassUnicodeRange::new(first, last))));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Literal(text) if String::from_utf8_lossy(&text.0).chars().any(is_unwritten) => Hir::fail(),
        HirKind::Repetition(part) => {
            Hir::repetition(Repetition { sub: Box::new(without_control_characters(&part.sub)), ..part.clone() })
        }
        HirKind::Capture(part) => without_control_characters(&part.sub),
        HirKind::Concat(parts) => Hir::concat(all(parts)),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)),
        _ => hir.clone(),
    }
}

fn parse(text: &str) -> Result<Hir, String> {
    const MAX_NESTING: u32 = 100;
    let mut parser = regex_syntax::ParserBuilder::new().nest_limit(MAX_NESTING).build();
    parser.parse(text).map_err(|error| {
        let (what, offset) = match &error {
            regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start.offset),
            regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span().start.offset),
            _ => (error.to_string(), 0),
        };
        let character = text.get(..offset).map_or(0, |before| before.chars().count()) + 1;
        format!("the regular expression is wrong at character {character}: {what}")
    })
}

fn check(hir: &Hir) -> Result<(), String> {
    let mut todo = vec![hir];
    while let Some(part) = todo.pop() {
        match part.kind() {
            HirKind::Look(Look::Start | Look::End) => {}
            HirKind::Look(look) => {
                let name = match look {
                    Look::WordAscii | Look::WordUnicode => "\\b",
                    Look::WordAsciiNegate | Look::WordUnicodeNegate => "\\B",
                    Look::StartLF | Look::StartCRLF | Look::EndLF | Look::EndCRLF => "(?m)^ or (?m)$",
                    _ => "a word boundary",
                };
                return Err(format!("the regular expression has {name}, which is not supported"));
            }
            // llguidance takes this group for one that looks ahead.
            HirKind::Capture(capture) if capture.name.as_deref() == Some("stop") => {
                return Err("the regular expression has a group of the name stop; accepted: other names".to_string());
            }
            _ => {}
        }
        todo.extend(part.kind().subs());
    }
    Ok(())
}
