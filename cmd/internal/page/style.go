// SPDX-License-Identifier: Apache-2.0

package page

import "strings"

// styleSheet is the style element. Its content is a constant, without characters that a
// style element gives a meaning of its own.
type styleSheet struct{}

func (s styleSheet) addTo(parent *element) { parent.children = append(parent.children, s) }

func (styleSheet) writeTo(b *strings.Builder) {
	b.WriteString("<style>" + lightColours + "@media screen and (prefers-color-scheme:dark){" + darkColours + "}" + rules + "</style>\n")
}

// Each pair of a text and its background has a contrast of at least 4.5 to 1 (WCAG 2.2,
// 1.4.3), which TestContrast computes.
const (
	lightColours = `
:root{--page:#f4f6f8;--card:#ffffff;--ink:#18212b;--muted:#566270;--line:#dbe1e7;--track:#edf0f3;
--good:#13703f;--good-soft:#e6f4ec;--warning:#855300;--warning-soft:#fdf3dc;--bad:#b3201b;--bad-soft:#fcebea;
--neutral:#566270;--neutral-soft:#edf0f3;--held:#0b6478;--on-held:#ffffff;--standby:#cfd8e0;--on-standby:#18212b}
`
	darkColours = `
:root{--page:#10151b;--card:#171e26;--ink:#e4e9ee;--muted:#9ba8b5;--line:#2a343f;--track:#1f2832;
--good:#5cc98c;--good-soft:#14281e;--warning:#e6b450;--warning-soft:#2c2413;--bad:#ff9189;--bad-soft:#341c1c;
--neutral:#9ba8b5;--neutral-soft:#1f2832;--held:#55bcd3;--on-held:#08242b;--standby:#3a4754;--on-standby:#e4e9ee}
`
	rules = `
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:2rem 1.5rem 3rem;max-width:76rem;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Red Hat Text","Noto Sans","Liberation Sans",sans-serif}
h1,h2,h3,p,dl,dd,ul,pre{margin:0}
h1{font-size:1.6rem;line-height:1.25;font-weight:650;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:1.05rem;font-weight:650}
h3{font-size:.95rem;font-weight:650}
.product{color:var(--muted);font-size:.8rem;font-weight:600;letter-spacing:.04em}
.top{margin-bottom:1.25rem}
.muted{color:var(--muted)}
.code,pre{font-family:ui-monospace,"SF Mono","Cascadia Mono","Red Hat Mono",Menlo,Consolas,"Liberation Mono",monospace;font-size:.9em}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
.card,.state,.tiles,.host{margin-bottom:1.25rem}
.card,.state{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:1.1rem 1.25rem}
.card>h2,.card>h3{margin-bottom:.7rem}
.state{border-left-width:5px}
.state.good{border-left-color:var(--good)}.state.warning{border-left-color:var(--warning)}.state.bad{border-left-color:var(--bad)}
.headline{font-size:1.5rem;font-weight:650;line-height:1.3}
.message{margin:.2rem 0 .35rem;overflow-wrap:anywhere}
.mark{display:inline-flex;align-items:baseline;gap:.4em}
.mark.good{color:var(--good)}.mark.warning{color:var(--warning)}.mark.bad{color:var(--bad)}.mark.neutral{color:var(--muted)}
.icon{width:1em;height:1em;flex:none;align-self:center}
.icon .shape{fill:currentColor}
.icon .sign{fill:none;stroke:var(--card);stroke-width:1.8;stroke-linecap:round;stroke-linejoin:round}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:1px;background:var(--card);border:1px solid var(--line);border-radius:8px;overflow:hidden}
.tile{box-shadow:0 0 0 1px var(--line);padding:.8rem 1.1rem}
.tile dt{color:var(--muted);font-size:.8rem}
.tile b{display:block;font-size:1.25rem;font-weight:650;line-height:1.35;font-variant-numeric:tabular-nums}
.tile b{overflow-wrap:anywhere}
.tile span{font-size:.8rem;overflow-wrap:anywhere}
.tile.warning b{color:var(--warning)}.tile.bad b{color:var(--bad)}
.scroll{overflow-x:auto;margin:0 -1.25rem;padding:0 1.25rem}
.scroll+.scroll,.note+.scroll,p+.scroll,dl+.scroll,.scroll+.terms{margin-top:1.1rem}
.scroll:focus-visible{outline:2px solid var(--held);outline-offset:-2px}
table{border-collapse:collapse;width:100%;font-size:.9rem}
caption{text-align:left;color:var(--muted);font-size:.8rem;padding-bottom:.3rem}
th,td{text-align:left;vertical-align:top;padding:.42rem .9rem .42rem 0;border-bottom:1px solid var(--line);font-weight:400}
th:last-child,td:last-child{padding-right:0}
tbody tr:last-child>*{border-bottom:0}
thead th{color:var(--muted);font-size:.78rem;font-weight:600;white-space:nowrap;border-bottom:1px solid var(--line)}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.moment{font-variant-numeric:tabular-nums;white-space:nowrap}
td .code,th .code{white-space:nowrap}
.long,td .long{white-space:normal;overflow-wrap:anywhere;display:inline-block;max-width:16rem}
.prose{min-width:15rem;overflow-wrap:anywhere}
td .mark,th .mark{white-space:nowrap}
.id{font-family:ui-monospace,"SF Mono","Cascadia Mono","Red Hat Mono",Menlo,Consolas,"Liberation Mono",monospace;font-size:.8rem;
background:var(--neutral-soft);border:1px solid var(--line);border-radius:4px;padding:.05rem .35rem;white-space:nowrap}
.host{border-top:1px solid var(--line);margin-top:2.5rem;padding-top:1.5rem}
.host-name{font-size:1.35rem;margin-bottom:1rem;overflow-wrap:anywhere}
.empty{color:var(--muted)}
.note{color:var(--muted);font-size:.85rem;margin-top:.7rem}
.share{width:7rem;height:.6rem;vertical-align:middle;overflow:hidden;border-radius:2px;background:var(--track)}
.share rect{fill:var(--muted)}
.share.good rect{fill:var(--good)}.share.warning rect{fill:var(--warning)}.share.bad rect{fill:var(--bad)}
.problems{list-style:none;padding:0;display:grid;gap:.7rem}
.problems li{border-left:4px solid var(--line);border-radius:4px;padding:.6rem .9rem;overflow-wrap:anywhere}
.problems li.bad{border-color:var(--bad);background:var(--bad-soft)}
.problems li.warning{border-color:var(--warning);background:var(--warning-soft)}
.problem-head{display:flex;flex-wrap:wrap;gap:.6rem;align-items:baseline;font-weight:600;margin-bottom:.15rem}
.problems .id{background:var(--card);font-weight:400}
.problem-head .muted{font-weight:400}
.fix{margin-top:.3rem}
.terms{display:grid;gap:.1rem}
.terms>div{display:grid;grid-template-columns:14rem 1fr;gap:1rem;padding:.3rem 0;border-bottom:1px solid var(--line);font-size:.9rem}
.terms>div:last-child{border-bottom:0}
.terms dt{color:var(--muted)}
.terms dd{overflow-wrap:anywhere}
.scroll+.timeline{margin-top:1.3rem}
.timeline svg{display:block;width:100%}
.lane-head{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 1.5rem;font-size:.88rem;margin-top:.7rem;padding-bottom:.2rem}
.lane-head:first-child{margin-top:0}
.lane{height:1.7rem}
.axis{height:1.5rem;overflow:visible}
.track{fill:var(--track)}
.grid{stroke:var(--line);stroke-width:1}
.axis .grid{stroke:var(--muted)}
.axis line{clip-path:inset(0 0 calc(100% - 5px) 0)}
.tick{fill:var(--muted);font-size:12px;text-anchor:middle;font-variant-numeric:tabular-nums}
.bar{stroke:var(--card);stroke-width:1}
.bar.held{fill:var(--held)}.bar.standby{fill:var(--standby)}.bar.other{fill:var(--neutral-soft);stroke:var(--muted);stroke-dasharray:3 3}
.bar.good{fill:var(--good-soft);stroke:var(--good)}.bar.warning{fill:var(--warning-soft);stroke:var(--warning)}.bar.bad{fill:var(--bad-soft);stroke:var(--bad);stroke-width:2}
.label{font-size:12px;dominant-baseline:central;fill:var(--ink)}
.label.held{fill:var(--on-held)}.label.standby{fill:var(--on-standby)}
.label.good{fill:var(--good)}.label.warning{fill:var(--warning)}.label.bad{fill:var(--bad)}.label.other{fill:var(--muted)}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.3rem;margin-top:.9rem;font-size:.8rem;color:var(--muted)}
.legend span{display:inline-flex;align-items:center;gap:.45em}
.key{width:1.1rem;height:.7rem;flex:none}
footer{color:var(--muted);font-size:.8rem;border-top:1px solid var(--line);padding-top:1rem;margin-top:2rem}
a{color:var(--held)}
@media (max-width:44rem){
body{padding:1rem .75rem 2rem;font-size:14.5px}
.card,.state{padding:.9rem}
.scroll{margin:0 -.9rem;padding:0 .9rem}
.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}
.tile{padding:.65rem .9rem}
.terms>div{grid-template-columns:1fr;gap:0}
.wide{display:none}
}
@media print{
html{font-size:11.5px}
body{max-width:none;padding:0;font-size:1rem;background:none}
.card,.state,.tiles{border-color:#999;margin-bottom:1rem}
.scroll{overflow:visible}
td .code,th .code{white-space:normal;overflow-wrap:anywhere}
.prose{min-width:11rem}
.share{width:5rem}
tr,.tile,.state,.problems li,.lane-head,.lane,.terms>div{break-inside:avoid}
h2,h3,.lane-head,caption{break-after:avoid}
.host{break-before:page;border:0}
.bar,.track,.problems li,.share,.share rect,.icon .shape{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
`
)
