-- `allow(methods)` returns the value of `Allow` (RFC 9110 section 10.2.1) for a path. `methods`: the set of the path's
-- methods. GET implies HEAD, and every path has OPTIONS. Used by web/routing.lua and webservice/cgi.lua.

return function(methods)
  local names = {}
  for name in pairs(methods) do names[#names + 1] = name end
  if methods.GET and not methods.HEAD then names[#names + 1] = "HEAD" end
  if not methods.OPTIONS then names[#names + 1] = "OPTIONS" end
  table.sort(names)
  return table.concat(names, ", ")
end
