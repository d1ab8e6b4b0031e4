() => {
  const channels = (text) => {
    const [r, g, b, a] = text.match(/[\d.]+/g).map(Number);
    return { r, g, b, a: a === undefined ? 1 : a };
  };
  const over = (top, below) => ({
    r: top.r * top.a + below.r * (1 - top.a),
    g: top.g * top.a + below.g * (1 - top.a),
    b: top.b * top.a + below.b * (1 - top.a),
    a: 1,
  });
  // What an element's text stands on, and how much of it shows: both by its parent's.
  const known = new Map([[null, { back: { r: 255, g: 255, b: 255, a: 1 }, opacity: 1 }]]);
  const ground = (element) => {
    if (!known.has(element)) {
      const { back, opacity } = ground(element.parentElement);
      const style = getComputedStyle(element);
      const own = over(channels(style.backgroundColor), back);
      known.set(element, { back: own, opacity: opacity * Number(style.opacity) });
    }
    return known.get(element);
  };
  const luminance = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((v) => {
      const c = v / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const faint = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const words = walker.currentNode.textContent.trim();
    if (!words || element.closest("script, style, noscript, .headerlink, .md-search, svg, :disabled")) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const { back, opacity } = ground(element);
    const colour = channels(style.color);
    colour.a *= opacity;
    const [one, other] = [luminance(over(colour, back)), luminance(back)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const key = `${element.tagName}.${element.className} ${style.color}`;
    if (ratio < (large ? 3 : 4.5) && !faint.has(key)) faint.set(key, [words.slice(0, 40), `${ratio.toFixed(2)} ${key}`]);
  }
  return [...faint.values()];
}
