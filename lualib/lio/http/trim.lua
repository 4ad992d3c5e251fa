-- `trim(text)` returns the text without white space at its beginning and end. Used for values from peers: unlike the
-- pattern "^%s*(.-)%s*$", it takes linear time for any text.

return function(text)
  local first = text:find "%S"
  return first and text:match("^.*%S", first) or ""
end
