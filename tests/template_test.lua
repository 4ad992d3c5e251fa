-- `lio.template`: values, escaping, files, errors and limits. The language of templates is that of the crate minijinja.

local t = require "tests.kit"
local json = require "lio.json"
local template = require "lio.template"

-- Writes files into a new folder. Returns its path.
local function folder(files)
  local path = t.tmp()
  for name, content in pairs(files) do
    local sub = name:match "^(.*)/"
    if sub then os.execute(("mkdir -p '%s/%s'"):format(path, sub)) end
    t.write(path .. "/" .. name, content)
  end
  return path
end

-- Renders a template with the name `name`, by default one that is not escaped.
local function render(source, data, name)
  return template.new { templates = { [name or "x.txt"] = source } }:render(name or "x.txt", data)
end

-- Asserts that `f(…)`, called at a line of this file, raises an error with this position and this message.
local function raises(message, f, ...)
  local arguments = table.pack(...)
  return t.raises("^tests/template_test.lua:%d+: " .. message, function()
    f(table.unpack(arguments, 1, arguments.n))
  end)
end

t.test("a page extends a layout, includes other files and repeats parts", function()
  local views = template.new(folder {
    ["base.html"] = "<title>{% block title %}none{% endblock %}</title>{% block body %}{% endblock %}"
      .. "{% include 'parts/foot.html' %}",
    ["page.html"] = "{% extends 'base.html' %}{% from 'macros.html' import bold %}"
      .. "{% block title %}{{ title }}{% endblock %}"
      .. "{% block body %}{% for i in items %}<li>{{ bold(i) }}{% else %}empty{% endfor %}{% endblock %}",
    ["macros.html"] = "{% macro bold(x) %}<b>{{ x }}</b>{% endmacro %}",
    ["parts/foot.html"] = "<i>{{ title }}</i>",
  })
  t.eq(views:render("page.html", { title = "A & B", items = { "<1>", 2 } }),
    "<title>A &amp; B</title><li><b>&lt;1&gt;</b><li><b>2</b><i>A &amp; B</i>")
  t.eq(views:render("page.html", { items = {} }), "<title></title>empty<i></i>")
end)

t.test("the extension of a name decides whether values are escaped", function()
  local data = { x = "<&\"'" }
  for _, name in ipairs { "a.html", "a.HTM", "a.xml", "a.svg", "a.xhtml", "a.html.j2", "a.b/c.html" } do
    t.eq(render("{{ x }}", data, name), "&lt;&amp;&quot;&#39;", name)
  end
  for _, name in ipairs { "a.txt", "html", "a.html.txt", "a.csv" } do
    t.eq(render("{{ x }}", data, name), "<&\"'", name)
  end
  t.eq(json.decode(render("[{{ x }}]", data, "a.json"))[1], "<&\"'")
  local plain = template.new { autoescape = false, templates = { ["a.html"] = "{{ x }}" } }
  t.eq(plain:render("a.html", data), "<&\"'")
  local escaped = template.new { autoescape = true, templates = { ["a.txt"] = "{{ x }}{{ x|safe }}" } }
  t.eq(escaped:render("a.txt", data), "&lt;&amp;&quot;&#39;<&\"'")
end)

t.test("values are lists and maps by the rules of lio.json", function()
  local data = {
    i = 7, f = 7.0, n = 1.5, s = "x", yes = true, no = false, null = json.null, list = { 1, { 2 } },
    map = { b = 1, a = 2 },    empty = {}, array = json.array {}, big = math.maxinteger,
  }
  t.eq(render("{{ i }} {{ f }} {{ n }} {{ s }} {{ big }} {{ i // 2 }}", data), "7 7.0 1.5 x 9223372036854775807 3")
  t.eq(render("{{ 1 if yes else 2 }}{{ 1 if no else 2 }}{{ null is none }}", data), "12True")
  t.eq(render("{{ list[1][0] }}{{ list|length }}{% for k in map %}{{ k }}={{ map[k] }};{% endfor %}", data),
    "22a=2;b=1;")
  t.eq(render("{{ empty|length }}{% for x in empty %}x{% else %}none{% endfor %}", data), "0none")
  t.eq(render("{% for x in array %}x{% else %}none{% endfor %}", data), "none")
  t.eq(render("{{ s }}", { s = "a\xffb" }), "a\u{FFFD}b")
  t.eq(render "{{ missing }}|{{ missing is defined }}", "|False")
end)

t.test("values that a template cannot use raise, with the path to them", function()
  local cycle = {}
  cycle.c = cycle
  for message, data in pairs {
    ["a function at %.a%.b%[2%]"] = { a = { b = { 1, print } } },
    ["a thread at %.co"] = { co = coroutine.create(print) },
    ["a userdata at %.file"] = { file = io.stdout },
    ["a table with both integer and string keys at %.m"] = { m = { 1, x = 2 } },
    ["a table with a boolean as key at %.m"] = { m = { [true] = 1 } },
    ["a table with both integer and string keys"] = { 1 },
    ["a sparse list %(2 integer keys, but no %[2%]%) at %.l"] = { l = { 1, nil, 3 } },
    ['the key "\\xff", which is not UTF%-8'] = { ["\xff"] = 1 },
  } do
    raises("views:render: data: cannot use " .. message .. "$", render, "", data)
  end
  t.raises("data: excessive nesting, more than 100 tables %(a cycle%?%) at %.c%.c", render, "", cycle)
end)

t.test("an error names the file, the line, the problem and the including files", function()
  local path = folder {
    ["outer.html"] = "\n{% include 'inner.html' %}",
    ["inner.html"] = "a\nb\n  {{ x|unknown_filter }}  \n",
    ["syntax.html"] = "\n\n{{ x + }}\n",
    ["strict.html"] = "{{ a.b.c }}",
    ["gone.html"] = "{% extends 'nowhere.html' %}",
  }
  local views = template.new(path)
  local function fails(name, message)
    local text = raises("views:render: ", views.render, views, name, { a = {} })
    message = message:gsub("^%./", path .. "/"):gsub(" %./", " " .. path .. "/")
    t.eq((text:gsub("^[^:]+:%d+: views:render: ", "")), message)
  end
  fails("outer.html", "./inner.html:3: unknown filter: filter unknown_filter is unknown, in "
    .. "'{{ x|unknown_filter }}', called from ./outer.html:2")
  fails("syntax.html", "./syntax.html:3: syntax error: unexpected end of variable block, in '{{ x + }}'")
  fails("strict.html", "./strict.html:1: undefined value: `a.b` is undefined, in '{{ a.b.c }}'")
  fails("nowhere.html", 'template not found: template "nowhere.html" does not exist')
  local text = t.raises("", views.render, views, "gone.html")
  t.ok(text:find('gone.html:1: template not found: template "nowhere.html" does not exist', 1, true), text)
end)

t.test("a file outside the folder is never read", function()
  local path = folder { ["in/a.html"] = "a", ["secret.txt"] = "secret" }
  os.execute(("ln -s ../secret.txt '%s/in/link.html'; ln -s a.html '%s/in/inside.html'"):format(path, path))
  local views = template.new(path .. "/in")
  for _, name in ipairs { "../secret.txt", "x/../../secret.txt", path .. "/secret.txt", "link.html", "a\0b", "" } do
    local text = t.raises("", views.render, views, name)
    t.ok(not text:find("secret\n", 1, true) and text:find "cannot read the template", text)
    t.raises("", views.render_string, views, "{% include name %}", { name = name })
  end
  t.eq(views:render "inside.html", "a")
end)

t.test("files that are not templates raise", function()
  local views = template.new(folder { ["bad.txt"] = "\xff", ["d/x"] = "" })
  t.raises("cannot read the template 'bad.txt': it is not UTF%-8", views.render, views, "bad.txt")
  t.raises("cannot read the template 'd': it is not a file", views.render, views, "d")
end)

t.test("a changed file is read again only with reload = true", function()
  local path = folder { ["a.html"] = "1{% include 'b.html' %}", ["b.html"] = "1" }
  local kept, reloaded = template.new(path), template.new(path, { reload = true })
  t.eq({ kept:render "a.html", reloaded:render "a.html" }, { "11", "11" })
  t.write(path .. "/b.html", "changed")
  t.eq({ kept:render "a.html", reloaded:render "a.html" }, { "11", "1changed" })
  os.remove(path .. "/b.html")
  t.eq(kept:render "a.html", "11")
  t.raises("tried to include non%-existing template 'b.html'", reloaded.render, reloaded, "a.html")
  t.write(path .. "/b.html", "{{ broken")
  t.raises("b.html:1: syntax error", reloaded.render, reloaded, "a.html")
  t.write(path .. "/b.html", "again")
  t.eq(reloaded:render "a.html", "1again")
end)

t.test("a missing template is found as soon as it exists", function()
  local path = folder {}
  local views = template.new(path)
  t.raises("does not exist", views.render, views, "a.html")
  t.write(path .. "/a.html", "now")
  t.eq(views:render "a.html", "now")
end)

t.test("a template without end stops at the limits", function()
  local sources = {
    ["loop.txt"] = "{% for a in range(10000) %}{% for b in range(10000) %}x{% endfor %}{% endfor %}",
    ["self.txt"] = "{% include 'self.txt' %}",
    ["macro.txt"] = "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ["long.txt"] = "{{ 'x' * 100000000000 }}",
    ["few.txt"] = "{% for a in range(100) %}x{% endfor %}",
  }
  local views = template.new { templates = sources }
  for _, name in ipairs { "loop.txt", "long.txt" } do
    t.raises(name .. ":1: the template takes too many steps %(option 'fuel' sets the limit%)", views.render, views,
      name)
  end
  for _, name in ipairs { "self.txt", "macro.txt" } do
    t.raises("recursion limit exceeded", views.render, views, name)
  end
  t.eq(#views:render "few.txt", 100)
  local small = template.new { templates = sources, fuel = 50 }
  t.raises("the template takes too many steps", small.render, small, "few.txt")
  local free = template.new { templates = sources, fuel = false, recursion = 500 }
  t.eq(#free:render "few.txt", 100)
  t.raises("recursion limit exceeded", free.render, free, "macro.txt")
end)

t.test("an expression with too many parts is an error, not a crash", function()
  local views = template.new(folder {
    ["long.html"] = "\n{{ a" .. ("~a"):rep(100000) .. " }}", ["outer.html"] = "{% include 'long.html' %}",
  })
  local function refused(problem, source)
    raises("views:render_string: x.txt:1: syntax error: " .. problem .. "$", views.render_string, views, source, {
      a = "x" }, "x.txt")
  end
  local parts <const> = "an expression has more than 400 parts %(use {%% set %%} for some of them%)"
  for _, chain in ipairs { "+a", "~a", ".b", "[0]", "|upper", "()", " and a", " < a", " ** 1", " is defined",
    " if a else a" } do
    refused(parts, "{{ a" .. chain:rep(100000) .. " }}")
  end
  for _, prefix in ipairs { "not ", "-" } do refused(parts, "{{ " .. prefix:rep(100000) .. "a }}") end
  refused(parts, "{% with a = [a]" .. (", a = [a]"):rep(100) .. " %}{% endwith %}")
  for open, close in pairs { ["("] = ")", ["["] = "]", ["a("] = ")", ["a["] = "]", ["{1:"] = "}" } do
    refused("more than 50 brackets inside each other", "{{ " .. open:rep(51) .. "a" .. close:rep(51) .. " }}")
  end
  refused("more than 500 'elif'", "{% if a %}" .. ("{% elif a %}"):rep(100000) .. "{% endif %}")
  t.raises("views:render: [^:]*/long.html:2: syntax error: " .. parts, views.render, views,
    "long.html")
  t.raises("/outer.html:1: syntax error: [^:]*/long.html:2: syntax error: " .. parts, views.render, views, "outer.html")
  raises("template.new: x.txt:1: syntax error: " .. parts, template.new, {
    templates = { ["x.txt"] = "{{ a" .. ("~a"):rep(300) .. " }}" } })
end)

t.test("expressions and lists within the limits are rendered", function()
  local views = template.new()
  local function rendered(source)
    return views:render_string(source, { a = "x" }, "x.txt")
  end
  t.eq(rendered("{{ a" .. ("~a"):rep(199) .. " }}"), ("x"):rep(200))
  t.eq(rendered("{{ [" .. ("a, "):rep(1000) .. "]|length }}"), "1000")
  t.eq(rendered("{% if b %}" .. ("{% elif b %}"):rep(499) .. "{% else %}e{% endif %}"), "e")
  t.eq(rendered(("{% if b %}{% elif b %}{% endif %}"):rep(1000)), "")
  t.eq(rendered("{{ " .. ("("):rep(50) .. "a" .. (")"):rep(50) .. " }}"), "x")
end)

t.test("set does not make values that are too deep, or that contain themselves", function()
  local views = template.new()
  local function rendered(source)
    return views:render_string("{% set ns = namespace(x=[]) %}" .. source, {}, "x.txt")
  end
  local deep <const> = "{%% for i in range(%d) %%}{%% set ns.x = %s %%}{%% endfor %%}{{ ns.x%s }}"
  for _, filter in ipairs { "", "|tojson", " == ns.x" } do
    t.raises("x.txt:1: invalid operation: a value has more than 200 lists and maps inside each other, in '{%% set ns = "
      .. "namespace%(x=%[%]%) %%}{%% for i in range%(20000%) %%}{%% set ns.x = %[ns.", rendered,
      deep:format(20000, "[ns.x]", filter))
  end
  t.raises("more than 200 lists", rendered, deep:format(20000, "{'a': ns.x}", ""))
  t.raises("more than 200 lists", rendered, "{% set y = [] %}" .. ("{% set y = [y] %}"):rep(300))
  t.raises("more than 200 lists", rendered, ("{% set ns.x|default([ns.x], true) %}{% endset %}"):rep(300))
  t.eq(rendered(deep:format(199, "[ns.x]", "")), ("["):rep(200) .. ("]"):rep(200))
  t.eq(rendered(deep:format(1000, "ns.x + [i]", "|length")), "1000")
  for _, value in ipairs { "ns", "[ns]", "{'a': ns}", "namespace()" } do
    t.raises("x.txt:1: invalid operation: a namespace cannot contain a namespace", rendered,
      "{% set ns.x = " .. value .. " %}{{ ns }}")
  end
  t.eq(rendered "{% set a, b = 1, 2 %}{% set c = 3, %}{% set ns.x = a ~ b %}{{ ns.x }}{{ c }}", "12(3,)")
  t.eq(rendered "{% set s|replace('b', 'x') %}abc{% endset %}{{ s }}", "axc")
  local small = template.new { fuel = 1000 }
  t.raises("the template takes too many steps", small.render_string, small,
    "{% set ns = namespace() %}{% set ns.x = range(5000) %}")
end)

t.test("recursive macros and loops may build deep values", function()
  local views = template.new { recursion = 500 }
  local brackets <const> = { ("["):rep(40), ("]"):rep(40) }
  local value = brackets[1] .. "x" .. brackets[2]
  local text = views:render_string("{% macro m(n, x) %}{% if n %}{{ m(n - 1, " .. value .. ") }}{% else %}{{ x }}"
    .. "{% endif %}{% endmacro %}{{ m(80, 1) }}", {}, "x.txt")
  t.eq(text, ("["):rep(3200) .. "1" .. ("]"):rep(3200))
  local path = folder { ["m.txt"] = "{% for x in l recursive %}{{ loop([" .. value .. "]) }}{% endfor %}" }
  t.raises("recursion limit exceeded", template.new(path).render, template.new(path), "m.txt", { l = { 1 } })
end)

t.test("the limits also apply in services, whose stacks are smaller", function()
  local source <const> = [[
    local template = require "lio.template"
    local views = template.new()
    local function try(source)
      local ok, message = pcall(views.render_string, views, source, { a = "x" }, "x.txt")
      print(ok, (message:gsub("^.-: ", "", 1):sub(1, 60)))
    end
    try("{{ a" .. ("~a"):rep(199) .. " }}")
    try("{% if a %}" .. ("{% elif a %}"):rep(499) .. "{% endif %}")
    try("{% if a %}" .. ("{% elif a %}"):rep(6000) .. "{% endif %}")
    try("{{ " .. ("not "):rep(399) .. "a }}")
    try("{{ " .. ("["):rep(50) .. ("]"):rep(50) .. " }}")
  ]]
  local path = t.tmp() .. "/main.lua"
  t.write(path, source)
  local expected = {
    out = "true\t" .. ("x"):rep(60) .. "\ntrue\t\nfalse\tviews:render_string: x.txt:1: syntax error: more than 500 'e\n"
      .. "true\tFalse\ntrue\t" .. ("["):rep(50) .. ("]"):rep(10) .. "\n",
    err = "", code = 0,
  }
  for _, words in ipairs { "", "--service " } do
    t.eq(t.run(t.quote(t.bin()) .. " " .. words .. t.quote(path)), expected, words)
  end
end)

t.test("a panic of the engine is an error of the template, and standard error stays empty", function()
  local path = t.tmp() .. "/main.lua"
  t.write(path, [[
    local views = require "lio.template".new()
    local function try(...) print(pcall(views.render_string, views, ...)) end
    try("\n{% for x in [1] %}{{ loop.cycle() }}{% endfor %}", {}, "a.txt")
    try("{% for x in [1] %}{% set l = loop %}{{ l.cycle() }}{% endfor %}", {}, "b.txt")
  ]])
  local r = t.run(t.quote(t.bin()) .. " " .. t.quote(path))
  t.eq({ r.err, r.code }, { "", 0 })
  t.ok(r.out:find "main.lua:2: views:render_string: a.txt:2: syntax error: loop.cycle needs at least one value\n",
    r.out)
  t.ok(r.out:find "main.lua:2: views:render_string: b.txt: the template engine failed: attempt to calculate ", r.out)
end)

t.test("a template has one name: empty parts and dots are left out", function()
  local views = template.new(folder { ["a/b.txt"] = "b{{ x }}" })
  for _, name in ipairs { "a/b.txt", "./a/b.txt", "a//b.txt", "a/./b.txt" } do
    t.eq(views:render(name, { x = 1 }), "b1", name)
    t.eq(views:render_string("{% include '" .. name .. "' %}", { x = 2 }), "b2", name)
  end
  local added = template.new { templates = { ["./a//b.txt"] = "c" } }
  t.eq(added:render "a/b.txt", "c")
end)

t.test("render_string renders a source that may include files, and escapes its values", function()
  local views = template.new(folder { ["a.html"] = "[{{ x }}]" })
  t.eq(views:render_string("{{ x }}{% include 'a.html' %}", { x = "<" }), "&lt;[&lt;]")
  t.eq(views:render_string("{{ x }}", { x = "<" }, "mail.txt"), "<")
  raises("views:render_string: string.html:2: syntax error", views.render_string, views,
    "\n{{")
  t.raises("render_string: mail.txt:1: undefined value", views.render_string, views, "{{ a.b.c }}", {}, "mail.txt")
end)

t.test("options change globals, undefined variables and whitespace", function()
  local function with(opts, source, data)
    opts.templates = { ["x.txt"] = source }
    local views = template.new(opts)
    return views:render("x.txt", data)
  end
  t.eq(with({ globals = { site = "S", n = 1 } }, "{{ site }}{{ n }}", { n = 2 }), "S2")
  t.raises("x.txt:1: undefined value", with, { undefined = "strict" }, "{{ a }}")
  t.eq(with({ undefined = "chainable" }, "{{ a.b.c }}", {}), "")
  t.eq(with({ trim_blocks = true, lstrip_blocks = true }, "  {% if 1 %}\nx\n  {% endif %}\n"), "x\n")
  t.eq(with({}, "x\n"), "x")
  t.eq(with({ keep_trailing_newline = true }, "x\n"), "x\n")
end)

t.test("wrong arguments raise at the program's line", function()
  local function refused(message, f, ...)
    raises(message .. "$", f, ...)
  end
  refused("template.new: cannot open the folder '/no/such': No such file or directory.*", template.new, "/no/such")
  refused("template.new: option 'undefind' is unknown %(did you mean 'undefined'%?%)", template.new, { undefind = 1 })
  refused("template.new: option 'undefined' must be \"lenient\", \"strict\" or \"chainable\", got \"x\"", template.new,
    { undefined = "x" })
  refused("template.new: option 'recursion' must be an integer from 1 to 500, got 501", template.new,
    { recursion = 501 })
  refused("template.new: the folder is given twice", template.new, "x", { folder = "y" })
  refused("template.new: option 'templates' must map names to the sources of templates", template.new,
    { templates = { "x" } })
  refused("template.new: a.txt:1: syntax error: .*", template.new, { templates = { ["a.txt"] = "{%" } })
  refused("template.new: option 'globals': data: cannot use a function at .f", template.new,
    { globals = { f = print } })
  refused("bad argument #1 to 'new' %(string expected, got number%)", template.new, 5)
  local views = template.new()
  refused("bad argument #1 to 'render' %(string expected, got nil%)", views.render, views)
  refused("bad argument #2 to 'render' %(table expected, got string%)", views.render, views, "x", "y")
  refused("views:render: call it with a colon, as in views:render%(…%)", views.render, "x")
  refused("bad argument #1 to 'render_string' %(string expected, got table%)", views.render_string, views, {})
  refused("bad argument #1 to 'render' %(UTF%-8 text expected%)", views.render, views, "\xff")
  refused("bad argument #1 to 'render_string' %(UTF%-8 text expected%)", views.render_string, views, "a\xff")
  refused("bad argument #3 to 'render_string' %(UTF%-8 text expected%)", views.render_string, views, "a", {}, "\xff")
  refused("template.new: option 'templates': \"a\" is not UTF%-8 text", template.new, { templates = { a = "\xff" } })
  refused("views:render: template not found: .*", views.render, views, "x.html")
end)

t.test("values are escaped as by web.escape, so slashes stay readable", function()
  local text = "<a href='/x?y=1&z=2'>\"ä\"</a>"
  local views = template.new()
  local escaped = require("lio.webserver").escape(text)
  t.eq(views:render_string("{{ x }}|{{ x|e }}|{{ x|escape|upper|lower }}", { x = text }),
    escaped .. "|" .. escaped .. "|" .. escaped)
  t.eq(views:render_string("{{ x|e }}", { x = text }, "a.txt"), escaped)
  t.eq(views:render_string("{{ x }} {{ x|e }}", { x = "</" }, "a.json"), [["</" "</"]])
  t.eq(views:render_string("{{ l }} {{ n }} {{ b }} [{{ u }}]", { l = { "/<" }, n = 1.5, b = true }),
    "[&#39;/&lt;&#39;] 1.5 True []")
end)

t.test("close closes the folder", function()
  local path = folder { ["a.txt"] = "a" }
  local function is_open()
    local list <close> = assert(io.popen("ls -l /proc/$PPID/fd"))
    return list:read("a"):find(path, 1, true) ~= nil
  end
  local views = template.new(path)
  t.eq({ views:render "a.txt", is_open() }, { "a", true })
  views:close()
  t.eq(is_open(), false)
  views:close()
  raises("views:render: the views are closed$", views.render, views, "a.txt")
  raises("views:render_string: the views are closed$", views.render_string, views, "a")
  do local _ <close> = template.new(path) end
  t.eq(is_open(), false)
end)

t.finish()
