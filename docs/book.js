// mdBook has one language per book: this marks the Chinese pages, so that browsers choose fonts and voices for them.
if (/\/zh\/|\.zh\.html$/.test(location.pathname)) document.documentElement.lang = "zh-CN";
