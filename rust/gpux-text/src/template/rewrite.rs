//! Where minijinja and Jinja differ in what an expression means, the expression becomes a call of a function of
//! python.rs. Their names begin with a blank, so that no template can name them.

use std::cell::Cell;

use minijinja::machinery::ast::{
    BinOp, BinOpKind, Break, Call, CallArg, CallBlock, Compare, CompareOp, Const, Continue, Do, EmitExpr,
    EmitRaw, Expr, Filter, FilterBlock, ForLoop, GetAttr, GetItem, IfCond, IfExpr, List, Macro, Map, Set, SetBlock,
    Spanned, Stmt, Template, Test, Tuple, UnaryOp, UnaryOpKind, Var, WithBlock,
};
use minijinja::machinery::Span;
use minijinja::{Error, ErrorKind, Value};

use super::methods::is_method_name;
use super::python::{FILTERS, TESTS};

type Outcome<T> = Result<T, Error>;

/// Rewrites the templates of one source.
struct Rewriter<'a> {
    source: &'a str,
    /// Conditions that what is being rewritten depends on.
    conditions: Cell<usize>,
}

fn call<'a>(name: &'a str, args: Vec<Expr<'a>>, span: Span) -> Expr<'a> {
    let callee = Expr::Var(Spanned::new(Var { id: name }, span));
    Expr::Call(Spanned::new(Call { expr: callee, args: args.into_iter().map(CallArg::Pos).collect() }, span))
}

fn constant<'a>(value: Value, span: Span) -> Expr<'a> {
    Expr::Const(Spanned::new(Const { value }, span))
}


/// The template that means in the engine what `parsed` means in Python. `source` is what was parsed.
pub fn template<'a>(source: &'a str, parsed: &Stmt<'a>) -> Outcome<Stmt<'a>> {
    Rewriter { source, conditions: Cell::new(0) }.statement(parsed)
}

/// The string literal up to its quote, which has to be the end; empty where it is not.
fn unescaped(text: &str, quote: char) -> Outcome<Option<String>> {
    let mut made = String::with_capacity(text.len());
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Ok((at + 1 == text.len()).then_some(made));
        }
        let escape = match c {
            '\\' => chars.next().map_or('\\', |next| next.1),
            _ => {
                made.push(c);
                continue;
            }
        };
        let digits = match escape {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits > 0 {
            made.push(code_point(text, at + 2, digits)?);
            for _ in 0..digits {
                chars.next();
            }
            continue;
        }
        match escape {
            '\n' => {}
            'a' => made.push('\u{7}'),
            'b' => made.push('\u{8}'),
            'f' => made.push('\u{c}'),
            'n' => made.push('\n'),
            'r' => made.push('\r'),
            't' => made.push('\t'),
            'v' => made.push('\u{b}'),
            '\\' | '\'' | '"' => made.push(escape),
            '0'..='7' => {
                let mut code = escape.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = chars.peek().and_then(|next| next.1.to_digit(8)) else { break };
                    code = code * 8 + digit;
                    chars.next();
                }
                made.push(char::from_u32(code).unwrap_or_default());
            }
            'N' => return Err(Error::new(ErrorKind::BadEscape, "\\N{…} is not supported")),
            other => made.extend(['\\', other]),
        }
    }
    Ok(None)
}

fn code_point(text: &str, at: usize, digits: usize) -> Outcome<char> {
    let found = text.get(at..at + digits).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    found.and_then(char::from_u32).ok_or_else(|| Error::new(ErrorKind::BadEscape, "no such character"))
}

/// What is assigned to stays as it is.
fn target<'a>(from: &Expr<'a>) -> Expr<'a> {
    match from {
        Expr::Var(e) => Expr::Var(Spanned::new(Var { id: e.id }, e.span())),
        Expr::GetAttr(e) => Expr::GetAttr(Spanned::new(GetAttr { expr: target(&e.expr), name: e.name }, e.span())),
        Expr::List(e) => Expr::List(Spanned::new(List { items: e.items.iter().map(target).collect() }, e.span())),
        Expr::Tuple(e) => Expr::Tuple(Spanned::new(Tuple { items: e.items.iter().map(target).collect() }, e.span())),
        other => constant(Value::UNDEFINED, other.span()),
    }
}

impl<'a> Rewriter<'a> {
    fn body(&self, stmts: &[Stmt<'a>]) -> Outcome<Vec<Stmt<'a>>> {
        stmts.iter().map(|one| self.statement(one)).collect()
    }

    fn exprs(&self, all: &[Expr<'a>]) -> Outcome<Vec<Expr<'a>>> {
        all.iter().map(|one| self.expr(one)).collect()
    }

    /// What a condition decides on, and the condition.
    fn conditional<T>(&self, rewrite: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        self.conditions.set(self.conditions.get() + 1);
        let rewritten = rewrite();
        self.conditions.set(self.conditions.get() - 1);
        rewritten
    }

    /// As Jinja: an error where it is read, but behind a condition where it is used, which it may never be.
    fn unknown(&self, kind: &str, name: &str, span: Span) -> Outcome<Expr<'a>> {
        let message = format!("no {kind} named {name:?}");
        match self.conditions.get() {
            0 => Err(Error::new(ErrorKind::SyntaxError, message)),
            _ => Ok(call(" unknown", vec![constant(Value::from(message), span)], span)),
        }
    }

    fn optional(&self, one: &Option<Expr<'a>>) -> Outcome<Option<Expr<'a>>> {
        one.as_ref().map(|one| self.expr(one)).transpose()
    }

    /// What is assigned: its size and depth are bounded.
    fn kept(&self, to: &Expr<'a>, value: &Expr<'a>) -> Outcome<Expr<'a>> {
        let name = if matches!(to, Expr::GetAttr(_)) { " kept in namespace" } else { " kept" };
        Ok(match value {
            Expr::Const(_) => self.expr(value)?,
            _ => call(name, vec![self.expr(value)?], value.span()),
        })
    }

    fn statement(&self, stmt: &Stmt<'a>) -> Outcome<Stmt<'a>> {
        Ok(match stmt {
            Stmt::Template(s) => Stmt::Template(Spanned::new(Template { children: self.body(&s.children)? }, s.span())),
            Stmt::EmitExpr(s) => Stmt::EmitExpr(Spanned::new(EmitExpr { expr: self.expr(&s.expr)? }, s.span())),
            Stmt::EmitRaw(s) => Stmt::EmitRaw(Spanned::new(EmitRaw { raw: s.raw }, s.span())),
            Stmt::ForLoop(s) => Stmt::ForLoop(Spanned::new(
                ForLoop {
                    target: target(&s.target),
                    iter: call(" iterable", vec![self.expr(&s.iter)?], s.iter.span()),
                    filter_expr: self.optional(&s.filter_expr)?,
                    recursive: s.recursive,
                    body: self.body(&s.body)?,
                    else_body: self.body(&s.else_body)?,
                },
                s.span(),
            )),
            Stmt::IfCond(s) => Stmt::IfCond(Spanned::new(
                self.conditional(|| {
                    Ok(IfCond {
                        expr: self.expr(&s.expr)?,
                        true_body: self.body(&s.true_body)?,
                        false_body: self.body(&s.false_body)?,
                    })
                })?,
                s.span(),
            )),
            Stmt::WithBlock(s) => {
                let assignments =
                    s.assignments.iter().map(|(left, right)| Ok((target(left), self.kept(left, right)?))).collect::<Outcome<_>>()?;
                Stmt::WithBlock(Spanned::new(WithBlock { assignments, body: self.body(&s.body)? }, s.span()))
            }
            Stmt::Set(s) => {
                Stmt::Set(Spanned::new(Set { target: target(&s.target), expr: self.kept(&s.target, &s.expr)? }, s.span()))
            }
            Stmt::SetBlock(s) => Stmt::SetBlock(Spanned::new(
                SetBlock { target: target(&s.target), filter: self.optional(&s.filter)?, body: self.body(&s.body)? },
                s.span(),
            )),
            Stmt::AutoEscape(_) => {
                return Err(Error::new(ErrorKind::SyntaxError, "autoescape is not supported: a prompt is no HTML"))
            }
            Stmt::FilterBlock(s) => Stmt::FilterBlock(Spanned::new(
                FilterBlock { filter: self.expr(&s.filter)?, filter_span: s.filter_span, body: self.body(&s.body)? },
                s.span(),
            )),
            Stmt::Macro(s) => Stmt::Macro(Spanned::new(self.macro_of(s)?, s.span())),
            Stmt::CallBlock(s) => Stmt::CallBlock(Spanned::new(
                CallBlock {
                    call: Spanned::new(self.call_of(&s.call)?, s.call.span()),
                    call_expr_span: s.call_expr_span,
                    macro_decl: Spanned::new(self.macro_of(&s.macro_decl)?, s.macro_decl.span()),
                },
                s.span(),
            )),
            Stmt::Continue(s) => Stmt::Continue(Spanned::new(Continue, s.span())),
            Stmt::Break(s) => Stmt::Break(Spanned::new(Break, s.span())),
            Stmt::Do(s) => Stmt::Do(Spanned::new(Do { call: Spanned::new(self.call_of(&s.call)?, s.call.span()) }, s.span())),
        })
    }

    fn macro_of(&self, from: &Macro<'a>) -> Outcome<Macro<'a>> {
        let mut defaults = self.exprs(&from.defaults)?;
        let mut whole = Vec::new();
        // A default may name the arguments before it, which the engine evaluates outside of the macro.
        let first = from.args.len() - from.defaults.len();
        for (default, arg) in defaults.iter_mut().zip(&from.args[first..]) {
            if !matches!(default, Expr::Const(_)) {
                let span = arg.span();
                let value = std::mem::replace(default, constant(Value::UNDEFINED, span));
                let missing = Test { name: "undefined", expr: target(arg), args: Vec::new() };
                let set = Stmt::Set(Spanned::new(Set { target: target(arg), expr: value }, span));
                let filled = IfCond {
                    expr: Expr::Test(Spanned::new(missing, span)),
                    true_body: vec![set],
                    false_body: Vec::new(),
                };
                whole.push(Stmt::IfCond(Spanned::new(filled, span)));
            }
        }
        whole.extend(self.body(&from.body)?);
        Ok(Macro { name: from.name, args: from.args.iter().map(target).collect(), defaults, body: whole })
    }

    fn arguments(&self, all: &[CallArg<'a>]) -> Outcome<Vec<CallArg<'a>>> {
        all.iter()
            .map(|arg| {
                Ok(match arg {
                    CallArg::Pos(one) => CallArg::Pos(self.expr(one)?),
                    CallArg::Kwarg(name, one) => CallArg::Kwarg(name, self.expr(one)?),
                    CallArg::PosSplat(one) => CallArg::PosSplat(self.expr(one)?),
                    CallArg::KwargSplat(one) => CallArg::KwargSplat(self.expr(one)?),
                })
            })
            .collect()
    }

    fn call_of(&self, from: &Call<'a>) -> Outcome<Call<'a>> {
        // A method that is called is looked up by the engine, which knows that it comes before an item of that name.
        let callee = match &from.expr {
            Expr::GetAttr(attr) => {
                Expr::GetAttr(Spanned::new(GetAttr { expr: self.expr(&attr.expr)?, name: attr.name }, attr.span()))
            }
            other => self.expr(other)?,
        };
        Ok(Call { expr: callee, args: self.arguments(&from.args)? })
    }

    /// The value of a string with escapes, of which the engine knows fewer than Python.
    fn literal(&self, span: Span) -> Outcome<Option<Value>> {
        let text = self.source.get(span.start_offset as usize..span.end_offset as usize).unwrap_or_default();
        let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let Some(quote) = quote.filter(|_| text.contains('\\') && text.len() > 1) else { return Ok(None) };
        unescaped(&text[1..], quote).map(|made| made.map(Value::from))
    }

    fn operation(&self, e: &Spanned<BinOp<'a>>) -> Outcome<Expr<'a>> {
        let (left, right, span) = (self.expr(&e.left)?, self.expr(&e.right)?, e.span());
        Ok(match e.op {
            BinOpKind::Concat => call(" concat", vec![left, right], span),
            BinOpKind::Rem => call(" remainder", vec![left, right], span),
            BinOpKind::Lt => call(" less", vec![left, right], span),
            BinOpKind::Lte => call(" less or equal", vec![left, right], span),
            BinOpKind::Gt => call(" less", vec![right, left], span),
            BinOpKind::Gte => call(" less or equal", vec![right, left], span),
            // Of two lists the engine makes a lazy sequence, which is no list.
            op @ (BinOpKind::Add | BinOpKind::Mul) => {
                call(" list", vec![Expr::BinOp(Spanned::new(BinOp { op, left, right }, span))], span)
            }
            op => Expr::BinOp(Spanned::new(BinOp { op, left, right }, span)),
        })
    }

    fn expr(&self, from: &Expr<'a>) -> Outcome<Expr<'a>> {
        Ok(match from {
            Expr::Var(e) => Expr::Var(Spanned::new(Var { id: e.id }, e.span())),
            Expr::Const(e) => constant(self.literal(e.span())?.unwrap_or_else(|| e.value.clone()), e.span()),
            Expr::Slice(e) => {
                let none = || constant(Value::from(()), e.span());
                let mut args = vec![self.expr(&e.expr)?];
                for bound in [&e.start, &e.stop, &e.step] {
                    args.push(self.optional(bound)?.unwrap_or_else(none));
                }
                call(" slice", args, e.span())
            }
            Expr::UnaryOp(e) => {
                let op = match e.op {
                    UnaryOpKind::Not => UnaryOpKind::Not,
                    UnaryOpKind::Neg => UnaryOpKind::Neg,
                };
                Expr::UnaryOp(Spanned::new(UnaryOp { op, expr: self.expr(&e.expr)? }, e.span()))
            }
            Expr::BinOp(e) => self.operation(e)?,
            Expr::Compare(e) => {
                let ops = e
                    .ops
                    .iter()
                    .map(|one| Ok(CompareOp { op: one.op, expr: self.expr(&one.expr)? }))
                    .collect::<Outcome<_>>()?;
                Expr::Compare(Spanned::new(Compare { expr: self.expr(&e.expr)?, ops }, e.span()))
            }
            Expr::IfExpr(e) => Expr::IfExpr(Spanned::new(
                self.conditional(|| {
                    Ok(IfExpr {
                        test_expr: self.expr(&e.test_expr)?,
                        true_expr: self.expr(&e.true_expr)?,
                        false_expr: self.optional(&e.false_expr)?,
                    })
                })?,
                e.span(),
            )),
            Expr::Filter(e) => {
                if !FILTERS.contains(&e.name) {
                    return self.unknown("filter", e.name, e.span());
                }
                let filter = Filter { name: e.name, expr: self.optional(&e.expr)?, args: self.arguments(&e.args)? };
                Expr::Filter(Spanned::new(filter, e.span()))
            }
            Expr::Test(e) => {
                if !TESTS.contains(&e.name) {
                    return self.unknown("test", e.name, e.span());
                }
                let test = Test { name: e.name, expr: self.expr(&e.expr)?, args: self.arguments(&e.args)? };
                Expr::Test(Spanned::new(test, e.span()))
            }
            Expr::GetAttr(e) if is_method_name(e.name) => {
                call(" attribute", vec![self.expr(&e.expr)?, constant(Value::from(e.name), e.span())], e.span())
            }
            Expr::GetAttr(e) => {
                Expr::GetAttr(Spanned::new(GetAttr { expr: self.expr(&e.expr)?, name: e.name }, e.span()))
            }
            Expr::GetItem(e) => {
                let (object, key) = (self.expr(&e.expr)?, self.expr(&e.subscript_expr)?);
                let is_plain = match &e.subscript_expr {
                    Expr::Const(key) => !key.value.as_str().is_some_and(is_method_name),
                    _ => false,
                };
                match is_plain {
                    true => Expr::GetItem(Spanned::new(GetItem { expr: object, subscript_expr: key }, e.span())),
                    false => call(" item", vec![object, key], e.span()),
                }
            }
            Expr::Call(e) => Expr::Call(Spanned::new(self.call_of(e)?, e.span())),
            Expr::List(e) => Expr::List(Spanned::new(List { items: self.exprs(&e.items)? }, e.span())),
            Expr::Tuple(e) => Expr::Tuple(Spanned::new(Tuple { items: self.exprs(&e.items)? }, e.span())),
            Expr::Map(e) => {
                Expr::Map(Spanned::new(Map { keys: self.exprs(&e.keys)?, values: self.exprs(&e.values)? }, e.span()))
            }
        })
    }
}
