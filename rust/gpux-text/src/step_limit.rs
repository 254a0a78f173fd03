//! A limit of time for single steps of constraints: llguidance counts the rules that apply when it has found all of them,
//! which takes time with their square.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use llguidance::{CancellationHandle, Matcher};

/// Far above what the other limits allow, so that a busy machine does not decide what is refused.
const MAX_STEP: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_millis(20);
/// Without steps the watching thread ends.
const IDLE: Duration = Duration::from_secs(1);

struct Step {
    number: u64,
    end: Instant,
    handle: CancellationHandle,
}

struct Watch {
    steps: Vec<Step>,
    next_number: u64,
    is_watched: bool,
}

static WATCH: Mutex<Watch> = Mutex::new(Watch { steps: Vec::new(), next_number: 0, is_watched: false });

fn watch() -> MutexGuard<'static, Watch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cancel_late_steps() {
    let mut last_step = Instant::now();
    loop {
        thread::sleep(POLL);
        let mut watch = watch();
        let now = Instant::now();
        if !watch.steps.is_empty() {
            last_step = now;
        }
        watch.steps.iter().filter(|step| step.end <= now).for_each(|step| step.handle.cancel());
        if now - last_step > IDLE {
            watch.is_watched = false;
            return;
        }
    }
}

/// Takes the step off the list, also where it panics.
struct Watched(u64);

impl Drop for Watched {
    fn drop(&mut self) {
        watch().steps.retain(|step| step.number != self.0);
    }
}

/// Runs one step of the matcher, which has to be cancellable: if it takes too long, it ends with an error, and the
/// matcher cannot be used any more.
pub fn limited<T>(matcher: &mut Matcher, step: impl FnOnce(&mut Matcher) -> T) -> T {
    let Some(handle) = matcher.cancellation_handle() else { return step(matcher) };
    let _watched = {
        let mut watch = watch();
        if !watch.is_watched {
            let thread = thread::Builder::new().name("gpux-constraints".to_string()).spawn(cancel_late_steps);
            watch.is_watched = thread.is_ok();
        }
        watch.next_number += 1;
        let number = watch.next_number;
        watch.steps.push(Step { number, end: Instant::now() + MAX_STEP, handle });
        Watched(number)
    };
    step(matcher)
}
