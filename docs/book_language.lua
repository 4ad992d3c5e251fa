-- Sets the language of pages that mdBook has built: `lua5.4 docs/book_language.lua LANGUAGE PAGE…`, which `make book`
-- runs. mdBook has one language per book, but some pages of the book are in Chinese. Browsers choose fonts and voices
-- by the language.

local language = arg[1]

for i = 2, #arg do
  local file <close> = assert(io.open(arg[i], "rb"))
  local text, count = file:read "a":gsub('<html lang="[^"]*"', '<html lang="' .. language .. '"', 1)
  if count == 0 then error(arg[i] .. " has no <html lang=\"…\">", 0) end
  local changed <close> = assert(io.open(arg[i], "wb"))
  assert(changed:write(text))
end
