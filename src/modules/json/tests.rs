//! A test that `json_test.lua` cannot contain: Lua runs out of memory in the middle of a call.

use super::OPEN;
use crate::lua::testing;
use mlua::Function;

/// Raises the memory limit above the used memory in small steps, so that every allocation of a call fails once. The
/// call must fail or return its result, and succeed afterwards.
#[test]
fn a_call_survives_lua_running_out_of_memory_anywhere() {
    let (lua, json) = testing::vm(OPEN);
    let check: Function = lua
        .load(
            r#"
            local json = ...
            local text = '{"list":[1,2.5,"three",{"deep":[[[null]]]}],"name":"' .. ("x"):rep(100) .. '"}'
            return function()
              local value = assert(json.decode(text))
              local again = assert(json.decode(json.encode(value, { sort = true })))
              return again.list[3] == "three" and again.list[4].deep[1][1][1] == json.null
            end
            "#,
        )
        .call(json)
        .expect("the chunk runs");
    let (mut failed, mut passed) = (0, 0);
    for spare in (0..6000).step_by(16) {
        lua.gc_collect().expect("no finalizer fails");
        lua.set_memory_limit(lua.used_memory() + spare).expect("the allocator is mlua's");
        let result = check.call::<bool>(());
        lua.set_memory_limit(0).expect("the allocator is mlua's");
        match result {
            Ok(same) => {
                assert!(same);
                passed += 1;
            }
            Err(error) => {
                assert!(matches!(error, mlua::Error::MemoryError(_)), "{error}");
                failed += 1;
            }
        }
        assert!(check.call::<bool>(()).expect("there is enough memory"));
    }
    assert!(failed > 10 && passed > 10, "{failed} failed, {passed} passed");
}
