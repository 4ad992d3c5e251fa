//! The message of a refused wait: what prevents the wait from reaching the scheduler, and where.

use super::Tasks;
use crate::lua::{Call, Fault, Frame, Kind, Next, Obstacle, Outcome, Stack, then};

impl Tasks {
    /// Raises `name: cannot wait here: …`. If `lio.misuse` is loaded, the message begins with the position of the first
    /// caller outside the library's own files.
    #[cold]
    pub(crate) fn refuse<R>(&self, call: &mut Call<'_>, name: &str) -> Result<Next<R>, Fault> {
        let text = self.refusal_text(call, name)?;
        let loaded = call.loaded("lio.misuse")?;
        let raise = call.raw_field(loaded, "raise")?;
        if call.kind(raise) != Kind::Function {
            return Err(Fault::message(text));
        }
        call.create(text)?;
        Ok(Next::call(1, then(not_raised), 0))
    }

    /// Returns the message of the error that [`Tasks::refuse`] raises.
    pub(crate) fn refusal_text(&self, call: &mut Call<'_>, name: &str) -> Result<String, Fault> {
        let height = call.count();
        let obstacle = self.obstacle_text(call)?;
        call.drop_to(height);
        Ok(format!("{name}: cannot wait here: {obstacle}"))
    }

    /// Describes what prevents the wait from reaching the scheduler.
    fn obstacle_text(&self, call: &mut Call<'_>) -> Result<String, Fault> {
        if self.is_ending.get() {
            return Ok("the service is ending".to_string());
        }
        let outside = "outside a task; use lio.loop.run(function() … end), or a service";
        let Some(id) = self.current() else { return Ok(outside.to_string()) };
        let front = self.table.borrow().task(id).front();
        Ok(match self.threads.yield_depth(call, front) {
            Err(Obstacle::Unyieldable(depth)) => self.describe_function(call, depth as usize)?,
            Err(Obstacle::Foreign) => {
                let text = "inside a coroutine that the plain coroutine library resumed; use require \"lio.coroutine\"";
                text.to_string()
            }
            // The length of the chain is the only other obstacle.
            Ok(_) => "more than 10000 coroutines are resuming each other".to_string(),
        })
    }

    /// Describes the C function in which a coroutine cannot yield: its name, and where it was called.
    fn describe_function(&self, call: &mut Call<'_>, depth: usize) -> Result<String, Fault> {
        let mut level = 1;
        while let Some(frame) = self.threads.frame(call, depth, level)? {
            if frame.name == "__gc" {
                return Ok("inside a finalizer (__gc)".to_string());
            }
            if frame.is_hook {
                return Ok("inside a debug hook".to_string());
            }
            if frame.is_native && !self.can_yield(call, &frame)? {
                let name = match frame.name.is_empty() {
                    true => library_name(call, frame.function)?,
                    false => frame.name,
                };
                return self.describe_call(call, &name, depth, level + 1);
            }
            call.drop_to(frame.function - 1);
            level += 1;
        }
        Ok(match depth {
            0 => "inside a function that Lua calls where it cannot yield, such as '__close' during coroutine.close or a kill",
            _ => "an outer coroutine is inside a function that cannot yield",
        }
        .to_string())
    }

    /// Describes the C function `name` and the line of the Lua function that has called it.
    fn describe_call(&self, call: &mut Call<'_>, name: &str, depth: usize, mut level: i32) -> Result<String, Fault> {
        let name = match name.is_empty() {
            true => "a C function".to_string(),
            false => format!("'{name}'"),
        };
        while let Some(frame) = self.threads.frame(call, depth, level)? {
            if let Some(position) = frame.position {
                return Ok(format!("inside {name}, which cannot yield, called at {position}"));
            }
            level += 1;
        }
        Ok(format!("inside {name}, which cannot yield"))
    }

    /// Whether a coroutine can yield across the function of the frame.
    fn can_yield(&self, call: &mut Call<'_>, frame: &Frame) -> Result<bool, Fault> {
        let function = frame.function;
        if function == 0 {
            return Ok(false);
        }
        let yieldable_functions = self.yieldable_functions.borrow();
        if yieldable_functions.iter().any(|&one| call.is_function(function, one)) {
            return Ok(true);
        }
        let height = call.count();
        let globals = call.loaded("_G")?;
        let mut known = false;
        for name in ["pcall", "xpcall", "dofile"] {
            let global = call.raw_field(globals, name)?;
            known |= call.is_same(function, global);
        }
        call.drop_to(height);
        Ok(known)
    }
}

/// Runs if the `raise` function of `lio.misuse` returns, which never happens.
fn not_raised(_: &mut Call<'_>, _: Outcome) -> Result<(), Fault> {
    Err(Fault::message("cannot wait here"))
}

/// Returns the name of the function at `index` in a library, for instance `table.sort`; empty if no loaded library
/// contains it.
fn library_name(call: &mut Call<'_>, index: i32) -> Result<String, Fault> {
    let mut found = String::new();
    if index == 0 {
        return Ok(found);
    }
    let libraries = call.loaded_libraries()?;
    call.pairs(libraries, |stack, key, library| {
        if found.is_empty() && stack.kind(library) == Kind::Table {
            let name = text(stack, key);
            stack.pairs(library, |stack, key, value| {
                if found.is_empty() && stack.is_same(value, index) {
                    let field = text(stack, key);
                    found = match &*name {
                        "_G" => field,
                        _ => format!("{name}.{field}"),
                    };
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    Ok(found)
}

fn text(stack: &Stack, index: i32) -> String {
    let text = stack.string(index).map(String::from_utf8_lossy);
    text.unwrap_or("?".into()).into_owned()
}
