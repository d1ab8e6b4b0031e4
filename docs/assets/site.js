// Keys lead to what is shown and to nothing else. The theme's buttons for the drawer and the search
// are labels, which no key reaches, and the list of what was found is a stop even when it is closed.
const NAMES = { __drawer: "Navigation", __search: "Search" }
for (const label of document.querySelectorAll("label.md-header__button[for]")) {
  if (!(label.htmlFor in NAMES)) continue
  label.tabIndex = 0
  label.setAttribute("role", "button")
  label.setAttribute("aria-label", NAMES[label.htmlFor])
  label.addEventListener("keydown", (event) => {
    if (event.key !== " ") return // the theme answers to Enter
    event.preventDefault()
    label.click()
  })
}
document.querySelector(".md-search__scrollwrap")?.setAttribute("tabindex", "-1")
