//! What bounds the values of a template: the engine's fuel, and their depth.
//!
//! Values share their parts, so that a few steps make one that takes forever to print or to compare; and values are
//! freed by recursion. So each value that a template keeps is measured as if it was printed.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

use super::methods::{BoundMethod, View};
use super::text::is_dict;

const MAX_DEPTH: usize = 200;
const VALUES_PER_STEP: u64 = 4;
const BYTES_PER_STEP: usize = 64;
pub const PRINTED_BYTES_PER_STEP: usize = 4;

/// Fuel for bytes that a call makes, before it makes them.
pub fn charge(state: &State, bytes: usize) -> Result<(), Error> {
    state.consume_fuel((bytes / BYTES_PER_STEP) as u64)
}

/// The bytes of printed values for which there is fuel.
pub fn bytes_left(state: &State) -> usize {
    state.fuel_levels().map_or(usize::MAX, |levels| (levels.1 as usize).saturating_mul(PRINTED_BYTES_PER_STEP))
}

/// What is assigned to a name.
pub fn kept(state: &State, value: &Value) -> Result<Value, Error> {
    Measure { state, count: 0, may_have_namespaces: true }.take(value, 0)?;
    Ok(value.clone())
}

/// What is assigned to a member of a namespace: a namespace within itself would never be freed.
pub fn kept_in_namespace(state: &State, value: &Value) -> Result<Value, Error> {
    Measure { state, count: 0, may_have_namespaces: false }.take(value, 0)?;
    Ok(value.clone())
}

struct Measure<'a> {
    state: &'a State<'a, 'a>,
    count: u64,
    may_have_namespaces: bool,
}

impl Measure<'_> {
    fn take(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.count += 1;
        if self.count % VALUES_PER_STEP == 0 {
            self.state.consume_fuel(1)?;
        }
        let Some(object) = value.as_object() else { return Ok(()) };
        if depth > MAX_DEPTH {
            let message = format!("a value is nested deeper than {MAX_DEPTH} levels");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        if let Some(method) = object.downcast_ref::<BoundMethod>() {
            return self.take(&method.value, depth + 1);
        }
        if let Some(view) = object.downcast_ref::<View>() {
            return view.values.iter().try_for_each(|one| self.take(one, depth + 1));
        }
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                for one in value.try_iter().into_iter().flatten() {
                    self.take(&one, depth + 1)?;
                }
                Ok(())
            }
            ValueKind::Map if is_dict(value) => {
                for key in value.try_iter().into_iter().flatten() {
                    self.take(&key, depth + 1)?;
                    self.take(&value.get_item(&key).unwrap_or_default(), depth + 1)?;
                }
                Ok(())
            }
            ValueKind::Map if !self.may_have_namespaces => {
                Err(Error::new(ErrorKind::InvalidOperation, "a namespace cannot hold namespaces, loops or macros"))
            }
            _ => Ok(()),
        }
    }
}
