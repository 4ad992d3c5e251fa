//! The target of a fuzzer: tasks, in a VM of a program that embeds Lua. `tasks.lua` interprets the input and contains the
//! model; this file runs it.

use std::mem::ManuallyDrop;

/// The result of an input: the numbers of forked tasks, of waits that ended, and of tasks that were killed, failed, or
/// were lost.
pub(super) type Reached = [i64; 5];

thread_local! {
    /// The VM and the compiled interpreter. All inputs use one VM, so that it must be clean after each of them. It is never
    /// closed: the core's store in such a VM is never freed, which LeakSanitizer would report.
    static VM: ManuallyDrop<(mlua::Lua, mlua::Function)> = {
        let lua = mlua::Lua::new();
        crate::install(&lua).expect("enough memory");
        let chunk = lua.load(include_str!("tasks.lua")).set_name("=tasks.lua");
        let function = chunk.into_function().expect("no syntax error");
        ManuallyDrop::new((lua, function))
    };
}

/// Runs the operations of an input.
///
/// # Panics
/// Panics with the violated invariant.
pub(super) fn tasks(data: &[u8]) -> Reached {
    VM.with(|vm| {
        let (lua, function) = &**vm;
        let input = lua.create_string(data).expect("enough memory");
        let results: mlua::Variadic<mlua::Value> = function.call(input).expect("no error");
        if let Some(mlua::Value::String(failure)) = results.first() {
            panic!("{}", failure.to_string_lossy());
        }
        let counts: Vec<i64> = results[1..].iter().filter_map(mlua::Value::as_integer).collect();
        counts.try_into().expect("five counts")
    })
}

/// Operations of the program.
const FORK: u8 = 0;
const SPAWN: u8 = 2;
const RUN: u8 = 8;
const COLLECT: u8 = 5;

/// Returns an operation of the program that wakes the task waiting on a token from 0 to 5, or interrupts it.
fn wake(token: u8, interrupts: bool) -> [u8; 2] {
    [(token + 6 * u8::from(interrupts)) * 10 + 3, 1]
}

/// Returns inputs to begin with.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    // Operations of tasks: 2 waits on token 0, 22 on token 1; 5 on the own coroutine; 6 wakes, 8 interrupts token 0;
    // 9 kills; 10 is a coroutine, 11 a pcall, 12 a guard; 13 fails, 14 returns, 16 waits without end.
    vec![
        [&[FORK, 0, RUN, 2][..], &wake(0, false), &[RUN, 14, RUN]].concat(),
        // The end of a task that is watched; a task that fails with an open guard, of which nothing is caught.
        vec![FORK, 2, FORK, 1, RUN, 14, 12, 3, 13, RUN],
        [&[FORK, 2, FORK, 2, RUN, 12, 1, 2, 11, 22][..], &wake(1, true), &[RUN, 14, 14, RUN]].concat(),
        // Coroutines in coroutines, which wait, yield, fail and are closed.
        [&[SPAWN, 0, 10, 9, 1, 10, 3, 3, 10, 2, 0, 2][..], &wake(0, false), &[RUN, 14, 14, 14, 14, RUN]].concat(),
        vec![SPAWN, 0, 10, 4, 0, 13, 10, 2, 0, 14, 14, 13],
        // Kills of waiting, ready and spawning tasks, with guards that fork, wake and kill.
        vec![FORK, 0, SPAWN, 0, 12, 1, 12, 2, 12, 13, 2, 4, RUN, 1, 0, 9, 0, 9, 1, 9, 2, 14, RUN],
        vec![SPAWN, 0, 10, 0, 3, 10, 0, 1, 5, SPAWN, 0, 18, 14, RUN],
        // Waits that no code can end.
        vec![SPAWN, 0, 16, SPAWN, 0, 10, 0, 0, 16, COLLECT, RUN, COLLECT, RUN, COLLECT, RUN],
        vec![6, 73 - 36, FORK, 0, 37, RUN, 2, 15, 35, 17, 19],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_reach_all_ends_of_tasks() {
        let mut total = [0; 5];
        for seed in seeds() {
            for (sum, count) in total.iter_mut().zip(tasks(&seed)) {
                *sum += count;
            }
        }
        assert!(total.iter().all(|count| *count > 0), "{total:?}");
    }

    #[test]
    fn inputs_of_any_length_are_valid() {
        for length in 0..30 {
            for first in [0, 0xff, 0x80, 0x55] {
                tasks(&vec![first; length]);
            }
        }
    }
}
