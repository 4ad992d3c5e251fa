-- `vary(res, name)`: adds the name of a request's field to the response's `Vary`, because the response depends on that
-- field (RFC 9110 section 12.5.5). Used by middleware, just before the head is sent.

return function(res, name)
  local vary = res:get_header "vary"
  if not vary then return res:header("Vary", name) end
  local lower = name:lower()
  for known in vary:lower():gmatch "[^%s,]+" do
    if known == "*" or known == lower then return res end
  end
  return res:header("Vary", vary .. ", " .. name)
end
