---@meta lio.json
-- Definitions of `lio.json` for the Lua language server. docs/build.lua generates docs/api/lio.json.md from them.

---Encodes Lua values as JSON text and decodes JSON text (RFC 8259). The web server uses it for a table that a handler
---returns.
---@class lio.json
---@field null lightuserdata the value for `null`; it is the same in every VM
---@field array_mt table the metatable with which `array` marks a table
local json = {}

---@class lio.JsonEncodeOptions
---@field sort? boolean whether to write the keys in byte order; default false

---@class lio.JsonDecodeOptions
---@field null? any the value that represents `null`; not nil; default `json.null`

---Encodes a value. A table with the keys 1 to n is an array, a table with string keys is an object, and an empty table
---is `{}` unless `json.array` has marked it. Raises for a value that JSON cannot represent (a function, NaN, infinity,
---a string that is not UTF-8, mixed keys) and for more than 127 nested tables; the message contains the path to the
---refused part.
---@param value any
---@param options? lio.JsonEncodeOptions
---@return string text
function json.encode(value, options) end

---Decodes a JSON text. An object becomes a plain table. An array becomes a table with the mark of `array`, so that
---`encode` writes an empty array as `[]`. If a key occurs twice, the last value is used. An integer that fits in 64
---bits becomes a Lua integer; a larger integer, or a number with a fraction or an exponent, becomes a float. A JSON
---text with more than 127 nested arrays and objects, or with a number outside the range of a double, is invalid.
---@param text string one JSON value in UTF-8
---@param options? lio.JsonDecodeOptions
---@return any value nil if the text is not JSON
---@return string? message contains the line and the column (in bytes)
---@return string? code `"truncated"` if the text ends too early, otherwise `"invalid"`
function json.decode(text, options) end

---Marks a table as an array: it is encoded as `[]` if it is empty, and `encode` raises if it has keys other than 1 to
---n. Raises if the table has another metatable. `setmetatable(t, nil)` removes the mark, even from a decoded array.
---@param t? table default: a new table; an explicit nil raises
---@return table t
function json.array(t) end

return json
