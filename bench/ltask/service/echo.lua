-- Answers with what it was sent.

local S = {}

function S.ping(...) return ... end

return S
