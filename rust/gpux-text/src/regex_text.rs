//! Regular expressions as llguidance reads them exactly.

use llguidance::regex_to_lark;
use regex_syntax::hir::{Hir, HirKind, Look};

/// The expression, written so that llguidance reads the same; an error says what is wrong with it, and where.
pub fn checked(text: &str) -> Result<String, String> {
    let hir = parse(text)?;
    check(&hir)?;
    Ok(hir.to_string())
}

/// The same for JSON schemas, where \d and \w are ASCII, as in JavaScript.
pub fn ascii_classes(text: &str) -> Result<String, String> {
    parse(text)?;
    checked(&regex_to_lark(text, "dw"))
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
