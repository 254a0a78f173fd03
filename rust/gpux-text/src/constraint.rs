//! The functions of gpux_text.h for constrained output, where they are documented.

use std::collections::HashSet;
use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use llguidance::api::{GrammarWithLexer, ParserLimits, StopReason, TopLevelGrammar};
use llguidance::toktrie::{SimpleVob, TokTrie};
use llguidance::Matcher;
use serde_json::Value;

use crate::lark_text::NamedTokens;
use crate::step_limit::limited;
use crate::vocabulary::Vocabulary;
use crate::{bytes, dead_ends, guarded, json_schema, lark_text, regex_text, utf8, GpuxText, GpuxTokenizer, Outcome};

const KIND_JSON_SCHEMA: u32 = 1;
const KIND_REGEX: u32 = 2;
const KIND_GRAMMAR: u32 = 3;

const STATE_MAY_END: u32 = 1;
const STATE_FINISHED: u32 = 2;

const MAX_TEXT_BYTES: usize = 256 << 10;
/// llguidance's compilers descend into what they compile.
const COMPILER_STACK_BYTES: usize = 256 << 20;

pub struct GpuxVocabulary(Arc<Vocabulary>);

#[derive(Clone)]
pub struct GpuxConstraint {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    /// The tokens that may come first, until one has come.
    first: Option<Arc<SimpleVob>>,
    /// The tokens that may come next, where they are known.
    next: Option<Arc<SimpleVob>>,
    /// The bytes that must come next, as far as they have been looked for.
    forced: Vec<u8>,
}

/// What one constraint may cost. A step of 200,000 takes about 15 ms, a state of a lexer 2 kB.
pub fn set_limits(limits: &mut ParserLimits) {
    limits.initial_lexer_fuel = 1_000_000;
    limits.step_lexer_fuel = 200_000;
    limits.step_max_items = 50_000;
    limits.max_items_in_row = 8_000;
    limits.max_lexer_states = 50_000;
    limits.max_grammar_size = 300_000;
    limits.verbose_errors = false;
}

/// One line of what llguidance says, in gpux's words where it names a limit or a setting that gpux does not have.
fn reason(message: &str) -> String {
    const WORDS: [(&str, &str); 15] = [
        ("NoExtension", "no token of the vocabulary continues the text"),
        ("initial lexer configuration", "its words are too many or too complex: compiling them was stopped"),
        ("grammar size (number of symbols)", "it has more than 300000 symbols"),
        ("fuel exhausted when checking relevance", "its words are too complex: compiling them was stopped"),
        ("schema too large", "allOf, anyOf and oneOf make more than 50000 schemas of it"),
        ("Schema intersection stack level", "allOf, anyOf and $ref are nested more than 128 levels deep"),
        ("Unable to determine if regex is empty", "a pattern and its length are too complex together"),
        ("oneOf constraints are not supported", "the schemas of a oneOf may hold at once; accepted: different types, \
          or objects that require a property of different constants; anyOf"),
        ("Too many items", "the next token is too complex: more than 50000 parts of rules apply"),
        ("Current row has", "the next token is too complex: too many rules apply"),
        ("operation cancelled", "the next token is too complex: choosing it was stopped"),
        ("too many states", "its words have more than 50000 states"),
        ("too many expressions", "the next token is too complex: its words have too many states"),
        ("LexerTooComplex", "the next token is too complex: its words have too many states"),
        ("ParserTooComplex", "the next token is too complex: too many rules apply"),
    ];
    if let Some((_, words)) = WORDS.iter().find(|(sign, _)| message.contains(sign)) {
        return words.to_string();
    }
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('<'));
    let line = lines.clone().next().unwrap_or("llguidance gave no reason");
    if let Some(what) = line.strip_prefix("Unsatisfiable schema: ") {
        return format!("no text fits it: {}", what.replace("Unsatisfiable schema: ", ""));
    }
    let line = line.strip_prefix("panic: ").map_or(line.to_string(), |what| format!("llguidance failed: {what}"));
    in_words(&line)
}

/// "3(14): …" is how llguidance writes a line and a column.
fn in_words(line: &str) -> String {
    let place = line.split_once("): ").and_then(|(place, what)| Some((place.split_once('(')?, what)));
    match place {
        Some(((row, column), what)) if row.parse::<u32>().is_ok() && column.parse::<u32>().is_ok() => {
            let what = if what == "lexer error" { "this is no part of a grammar" } else { what };
            format!("line {row}, column {column}: {what}")
        }
        _ => line.to_string(),
    }
}

fn matcher_of_text(vocabulary: &Vocabulary, kind: u32, text: &str) -> Outcome<Matcher> {
    match kind {
        KIND_JSON_SCHEMA => matcher_of_schema(vocabulary, text),
        KIND_REGEX => matcher_of_one(vocabulary, GrammarWithLexer::from_regex(&regex_text::checked(text)?)),
        KIND_GRAMMAR => {
            matcher_of_one(vocabulary, checked_grammar(vocabulary, text, NamedTokens::None)?)
        }
        _ => Err(format!("no kind of constraint has the number {kind}").into()),
    }
}

fn checked_grammar(vocabulary: &Vocabulary, text: &str, tokens: NamedTokens) -> Outcome<GrammarWithLexer> {
    let (grammar, schemas) = lark_text::with_normalized_schemas(text, tokens)?;
    for schema in &schemas {
        try_wide_parts(vocabulary, schema).map_err(|error| format!("the JSON schema of a %json: {error}"))?;
    }
    Ok(GrammarWithLexer::from_lark(grammar))
}

/// The grammar `frame`, in which @form stands for the form of this kind. Without a kind there is none.
fn matcher_of_frame(vocabulary: &Vocabulary, kind: u32, text: &str, frame: &str) -> Outcome<Matcher> {
    let form = match kind {
        0 => None,
        KIND_JSON_SCHEMA => {
            let root = json_schema::parsed(text)?;
            try_wide_parts(vocabulary, &root)?;
            Some(GrammarWithLexer::from_json_schema(json_schema::normalized(&root)?))
        }
        KIND_REGEX => Some(GrammarWithLexer::from_regex(&regex_text::checked(text)?)),
        KIND_GRAMMAR => Some(checked_grammar(vocabulary, text, NamedTokens::None)?),
        _ => return Err(format!("no kind of constraint has the number {kind}").into()),
    };
    let mut grammars = vec![checked_grammar(vocabulary, frame, NamedTokens::Any)?];
    grammars.extend(form.map(|form| GrammarWithLexer { name: Some("form".to_string()), ..form }));
    matcher_of_all(vocabulary, grammars)
}

fn matcher_of(vocabulary: &Vocabulary, grammars: Vec<GrammarWithLexer>) -> Outcome<Matcher> {
    let grammar = TopLevelGrammar { grammars, max_tokens: None };
    let mut parser = vocabulary.factory.create_parser(grammar).map_err(|error| reason(&format!("{error:#}")))?;
    if let Some(warning) = parser.grammar_warnings().first() {
        return Err(reason(warning).into());
    }
    if dead_ends::has_dead_end(&parser) {
        return Err("no text fits a part of it, so that an answer could not be finished".into());
    }
    Ok(Matcher::new(Ok(parser)).into_cancellable())
}

/// A text's first space is removed where it is decoded: the tokens have one more, or none and do not begin with one.
fn after_a_space(vocabulary: &Vocabulary, mut grammars: Vec<GrammarWithLexer>) -> Outcome<Matcher> {
    let mut alone = matcher_of(vocabulary, grammars.clone())?;
    let allowed = alone.compute_mask_or_eos().map_err(|error| reason(&error.to_string()))?;
    let begins_with_space = vocabulary.with_space.iter().any(|token| allowed.is_allowed(*token));
    let may_be_empty = alone.is_accepting().map_err(|error| reason(&error.to_string()))?;
    let wrapper = match (begins_with_space, may_be_empty) {
        (false, _) => "start: \" \"? @inner",
        (true, false) => "start: \" \" @inner",
        (true, true) => "start: (\" \" @inner)?",
    };
    grammars[0].name = Some("inner".to_string());
    grammars.insert(0, GrammarWithLexer::from_lark(wrapper.to_string()));
    matcher_of(vocabulary, grammars)
}

fn matcher_of_one(vocabulary: &Vocabulary, grammar: GrammarWithLexer) -> Outcome<Matcher> {
    matcher_of_all(vocabulary, vec![grammar])
}

/// Of the first grammar, which may name the others.
fn matcher_of_all(vocabulary: &Vocabulary, grammars: Vec<GrammarWithLexer>) -> Outcome<Matcher> {
    match vocabulary.strips_space {
        true => after_a_space(vocabulary, grammars),
        false => matcher_of(vocabulary, grammars),
    }
}

fn matcher_of_schema(vocabulary: &Vocabulary, text: &str) -> Outcome<Matcher> {
    let root = json_schema::parsed(text)?;
    let grammar = GrammarWithLexer::from_json_schema(json_schema::normalized(&root)?);
    try_wide_parts(vocabulary, &root)?;
    matcher_of_one(vocabulary, grammar).map_err(|error| with_place(vocabulary, &root, error.to_string()).into())
}

/// Parts with many alternatives are tried alone: the texts that lead to them are not.
fn try_wide_parts(vocabulary: &Vocabulary, root: &Value) -> Outcome<()> {
    const MANY: usize = 50;
    const MAX_PARTS: usize = 16;
    for (place, part) in json_schema::parts_with_alternatives(root, MANY).into_iter().take(MAX_PARTS) {
        let schema = json_schema::normalized_part(root, part, &place)?;
        // What cannot be used at all is found with the whole.
        let Ok(mut matcher) = matcher_of(vocabulary, vec![GrammarWithLexer::from_json_schema(schema)]) else { continue };
        try_beginning(vocabulary, &mut matcher).map_err(|error| format!("at {place}: {error}"))?;
    }
    Ok(())
}

/// What is wrong with the innermost part of the schema that alone cannot be used for the same reason, and its place:
/// llguidance names no places.
fn with_place(vocabulary: &Vocabulary, root: &Value, mut reason: String) -> String {
    const MAX_TIME: Duration = Duration::from_millis(500);
    let kind_of = |reason: &str| reason.split(':').next().map(str::to_string);
    let kind = kind_of(&reason);
    let reason_of = |part: &Value, place: &str| {
        let schema = json_schema::normalized_part(root, part, place).ok()?;
        let outcome = matcher_of(vocabulary, vec![GrammarWithLexer::from_json_schema(schema)]);
        outcome.err().map(|error| error.to_string()).filter(|reason| kind_of(reason) == kind)
    };
    let end = Instant::now() + MAX_TIME;
    let (mut part, mut place) = (root, "#".to_string());
    let mut tried = HashSet::from([place.clone()]);
    loop {
        let inner = json_schema::parts(root, part, &place);
        let mut untried = inner.into_iter().filter(|(place, _)| Instant::now() < end && tried.insert(place.clone()));
        let found = untried.find_map(|(place, part)| reason_of(part, &place).map(|reason| (reason, place, part)));
        let Some(found) = found else { return format!("at {place}: {reason}") };
        (reason, place, part) = found;
    }
}

fn compile(vocabulary: &Arc<Vocabulary>, kind: u32, text: &str, frame: &str) -> Outcome<GpuxConstraint> {
    for size in [text.len(), frame.len()].into_iter().filter(|size| *size > MAX_TEXT_BYTES) {
        return Err(format!("it has {size} bytes; accepted: up to {MAX_TEXT_BYTES}").into());
    }
    let work = || -> Outcome<(Matcher, Arc<SimpleVob>)> {
        let mut matcher = match frame.is_empty() {
            true => matcher_of_text(vocabulary, kind, text)?,
            false => matcher_of_frame(vocabulary, kind, text, frame)?,
        };
        // Here, and not in the first step of each answer.
        let first = try_beginning(vocabulary, &mut matcher)?;
        Ok((matcher, Arc::new(first)))
    };
    let (matcher, first) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(COMPILER_STACK_BYTES).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|_| Err("llguidance failed".into()))
    })?;
    let vocabulary = Arc::clone(vocabulary);
    Ok(GpuxConstraint { vocabulary, matcher, first: Some(first), next: None, forced: Vec::new() })
}

/// The tokens that may come first. An error where one of them, or of those that follow it, is too complex: what a text
/// begins with is often one brace, behind which all rules apply at once.
fn try_beginning(vocabulary: &Vocabulary, matcher: &mut Matcher) -> Outcome<SimpleVob> {
    let first = allowed(matcher)?;
    const MAX_TIME: Duration = Duration::from_millis(100);
    const BYTES: usize = 256;
    let trie = vocabulary.factory.tok_env().tok_trie();
    let mut shortest: [Option<u32>; BYTES] = [None; BYTES];
    let is_usual = |token: &u32| !trie.token(*token).is_empty() && !vocabulary.never_first.contains(token);
    for token in first.iter().filter(|token| !trie.eos_tokens().contains(token)).filter(is_usual) {
        let known = &mut shortest[usize::from(trie.token(token)[0])];
        if known.is_none_or(|other| trie.token(token).len() < trie.token(other).len()) {
            *known = Some(token);
        }
    }
    let end = Instant::now() + MAX_TIME;
    for token in shortest.into_iter().flatten().take_while(|_| Instant::now() < end) {
        let mut text = matcher.clone();
        consume(&mut text, token)?;
        if !text.is_stopped() {
            allowed(&mut text)?;
        }
    }
    Ok(first)
}

/// Whether the token was allowed.
fn consume(matcher: &mut Matcher, token: u32) -> Outcome<bool> {
    let accepted = limited(matcher, |matcher| matcher.try_consume_tokens(&[token]));
    Ok(accepted.map_err(|error| reason(&error.to_string()))? != 0)
}

/// The tokens that may come next.
fn allowed(matcher: &mut Matcher) -> Outcome<SimpleVob> {
    limited(matcher, Matcher::compute_mask_or_eos).map_err(|error| match matcher.stop_reason() {
        _ if error.to_string().contains("NoExtension") => reason(&error.to_string()).into(),
        StopReason::InternalError | StopReason::NotStopped => reason(&error.to_string()).into(),
        other => reason(&format!("{other}: {error}")).into(),
    })
}

fn next_tokens(constraint: &mut GpuxConstraint) -> Outcome<Arc<SimpleVob>> {
    if let Some(known) = constraint.first.as_ref().or(constraint.next.as_ref()) {
        return Ok(Arc::clone(known));
    }
    let next = Arc::new(allowed(&mut constraint.matcher)?);
    constraint.next = Some(Arc::clone(&next));
    Ok(next)
}

fn apply(constraint: &mut GpuxConstraint, logits: &mut [f32]) -> Outcome<()> {
    if logits.len() != constraint.vocabulary.logits {
        return Err(format!("{} logits; accepted: {}", logits.len(), constraint.vocabulary.logits).into());
    }
    let mask = next_tokens(constraint)?;
    const BITS: usize = 32;
    for (word, part) in mask.as_slice().iter().zip(logits.chunks_mut(BITS)) {
        if *word == u32::MAX {
            continue;
        }
        for (bit, logit) in part.iter_mut().enumerate() {
            if word >> bit & 1 == 0 {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
    if constraint.first.is_some() {
        for token in &constraint.vocabulary.never_first {
            logits[*token as usize] = f32::NEG_INFINITY;
        }
    }
    Ok(())
}

fn accept(constraint: &mut GpuxConstraint, token: u32) -> Outcome<()> {
    let is_never = constraint.first.is_some() && constraint.vocabulary.never_first.contains(&token);
    let is_known = (token as usize) < constraint.vocabulary.logits;
    if is_never || !is_known || constraint.matcher.is_stopped() {
        return Err(format!("token {token} is not allowed here").into());
    }
    if !consume(&mut constraint.matcher, token)? {
        return Err(format!("token {token} is not allowed here").into());
    }
    constraint.first = None;
    constraint.next = None;
    let own = constraint.vocabulary.factory.tok_env().tok_trie().token(token);
    constraint.forced = constraint.forced.strip_prefix(own).map_or_else(Vec::new, <[u8]>::to_vec);
    Ok(())
}

/// The longest tokens that spell what must come next, but the last: the model may spell it by others.
fn forced(constraint: &mut GpuxConstraint, most: usize) -> Vec<u32> {
    if constraint.matcher.is_stopped() {
        return Vec::new();
    }
    if constraint.forced.is_empty() {
        // Tokens that all begin with one byte are few: where there are many, nothing is looked for.
        const MANY: usize = 200;
        match next_tokens(constraint) {
            Ok(next) if next.num_set() <= MANY => {}
            _ => return Vec::new(),
        }
        // Of a copy: the parser takes what is forced for a part of the text.
        let mut copy = constraint.matcher.clone();
        constraint.forced = limited(&mut copy, Matcher::compute_ff_bytes);
    }
    let trie = constraint.vocabulary.factory.tok_env().tok_trie();
    let bytes = &constraint.forced[..constraint.forced.len().min(most.saturating_add(1).saturating_mul(trie.max_token_len()))];
    // Tokens that are named in a grammar have no text.
    let text = bytes.split(|byte| *byte == TokTrie::SPECIAL_TOKEN_MARKER).next().unwrap_or_default();
    let mut tokens = trie.greedy_tokenize(text);
    // A longer token than the last one may go beyond what is forced.
    tokens.pop();
    tokens.truncate(most);
    tokens
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_vocabulary_open(
    tokenizer: *const GpuxTokenizer,
    logits: usize,
    end_tokens: *const u32,
    end_count: usize,
    vocabulary: *mut *mut GpuxVocabulary,
) -> *mut c_char {
    guarded(|| {
        *vocabulary = ptr::null_mut();
        let ends = if end_count == 0 { &[] } else { std::slice::from_raw_parts(end_tokens, end_count) };
        let opened = Vocabulary::new((*tokenizer).tokenizer(), logits, ends)?;
        *vocabulary = Box::into_raw(Box::new(GpuxVocabulary(Arc::new(opened))));
        Ok(())
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_vocabulary_close(vocabulary: *mut GpuxVocabulary) {
    if !vocabulary.is_null() {
        drop(Box::from_raw(vocabulary));
    }
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_constraint_open(
    vocabulary: *const GpuxVocabulary,
    kind: u32,
    text: GpuxText,
    frame: GpuxText,
    constraint: *mut *mut GpuxConstraint,
) -> *mut c_char {
    guarded(|| {
        *constraint = ptr::null_mut();
        let opened = compile(&(*vocabulary).0, kind, utf8(bytes(text))?, utf8(bytes(frame))?)?;
        *constraint = Box::into_raw(Box::new(opened));
        Ok(())
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_constraint_copy(
    constraint: *const GpuxConstraint,
    copy: *mut *mut GpuxConstraint,
) -> *mut c_char {
    guarded(|| {
        *copy = ptr::null_mut();
        *copy = Box::into_raw(Box::new((*constraint).clone()));
        Ok(())
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_constraint_close(constraint: *mut GpuxConstraint) {
    if !constraint.is_null() {
        drop(Box::from_raw(constraint));
    }
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_constraint_apply(
    constraint: *mut GpuxConstraint,
    logits: *mut f32,
    count: usize,
) -> *mut c_char {
    guarded(|| apply(&mut *constraint, std::slice::from_raw_parts_mut(logits, count)))
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_constraint_accept(constraint: *mut GpuxConstraint, token: u32) -> *mut c_char {
    guarded(|| accept(&mut *constraint, token))
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_constraint_forced(
    constraint: *mut GpuxConstraint,
    tokens: *mut u32,
    count: *mut usize,
) -> *mut c_char {
    guarded(|| {
        let found = forced(&mut *constraint, *count);
        ptr::copy_nonoverlapping(found.as_ptr(), tokens, found.len());
        *count = found.len();
        Ok(())
    })
}

/// # Safety
/// As gpux_text.h says.
#[no_mangle]
pub unsafe extern "C" fn gpux_constraint_state(constraint: *mut GpuxConstraint, state: *mut u32) -> *mut c_char {
    guarded(|| {
        let matcher = &mut (*constraint).matcher;
        let is_finished = matcher.is_stopped() && !matcher.is_error();
        let may_end = is_finished || matcher.is_accepting().map_err(|error| reason(&error.to_string()))?;
        *state = if may_end { STATE_MAY_END } else { 0 } | if is_finished { STATE_FINISHED } else { 0 };
        Ok(())
    })
}
