"use strict";
/* The page as one picture: its elements, as they are shown, inside an SVG that a canvas draws. */

/* A copy of the page in which canvases are images and panes show what they are scrolled to. */
function pictured() {
  const copy = document.body.cloneNode(true);
  const live = [...document.querySelectorAll("canvas")], still = [...copy.querySelectorAll("canvas")];
  still.forEach((canvas, index) => {
    const image = document.createElement("img");
    image.src = live[index].toDataURL();
    image.style.cssText = `display:block;width:${live[index].clientWidth}px;height:${live[index].clientHeight}px`;
    canvas.replaceWith(image);
  });
  const scrolled = [...document.querySelectorAll(".lines")];
  [...copy.querySelectorAll(".lines")].forEach((lines, index) => {
    lines.style.overflow = "hidden";
    lines.firstChild.style.marginTop = `${-scrolled[index].scrollTop}px`;
  });
  // Inside a picture, a share of the window's height is one of the picture's.
  copy.querySelector("#panes").style.height = `${document.getElementById("panes").offsetHeight}px`;
  for (const gone of copy.querySelectorAll("script, .tools, .skip, [hidden]")) gone.remove();
  return copy;
}

async function drawn(scale) {
  const root = document.documentElement, width = root.clientWidth, height = document.body.offsetHeight;
  const page = document.createElementNS("http://www.w3.org/1999/xhtml", "div");
  page.dataset.theme = root.dataset.theme;
  const style = document.createElement("style");
  style.textContent = document.querySelector("style").textContent.replaceAll(":root", ".paper").replaceAll("html {", ".paper {");
  const copy = pictured();
  page.className = "paper";
  page.style.width = `${width}px`;
  page.append(style, ...copy.childNodes);
  const inside = new XMLSerializer().serializeToString(page);
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">`
    + `<foreignObject width="100%" height="100%">${inside}</foreignObject></svg>`;
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.drawImage(image, 0, 0);
  return canvas;
}

async function savePicture() {
  const canvas = await drawn(Math.min(2, devicePixelRatio || 1));
  const link = document.createElement("a");
  link.download = document.title.split(" ")[0] + ".png";
  link.href = canvas.toDataURL("image/png");
  link.click();
}

document.getElementById("picture").onclick = savePicture;
