---@meta lio.json
-- Definitions of `lio.json` for the Lua language server; docs/build.lua makes docs/api/lio.json.md of them.

---Lua values to JSON text and back (RFC 8259). The web server sends with it a table that a handler returns.
---@class lio.json
---@field null lightuserdata what stands for `null`: the same value in every VM
---@field array_mt table the metatable by which `array` marks a table
local json = {}

---@class lio.JsonEncodeOptions
---@field sort? boolean keys in the order of their bytes; default false

---@class lio.JsonDecodeOptions
---@field null? any what `null` becomes, any value but nil; default `json.null`

---Writes a value. A table with the keys 1 to n is an array, one with string keys an object, an empty one
---`{}` unless `json.array` marked it. What JSON cannot hold raises, with its place in the value.
---@param value any
---@param options? lio.JsonEncodeOptions
---@return string text
function json.encode(value, options) end

---Reads a text. An object becomes a plain table, an array a table marked as `array` does it, so that an empty one is
---written as `[]` again. Of equal keys the last counts. An integer of 64
---bits is a Lua integer; a larger one, or one with a fraction or an exponent, is a float.
---@param text string
---@param options? lio.JsonDecodeOptions
---@return any value nil when the text is not JSON
---@return string? message with line and column, in bytes
---@return string? code `"truncated"` when it ends too early, else `"invalid"`
function json.decode(text, options) end

---Marks a table as an array: `[]` when it is empty; `encode` raises when it has other keys than 1 to n. A table with
---another metatable raises. `setmetatable(t, nil)` takes the mark away, of a decoded array as well.
---@param t? table absent (not nil): a new one
---@return table t
function json.array(t) end

return json
