import { createTheme, type CSSVariablesResolver, type MantineColorsTuple } from "@mantine/core";

const petrol: MantineColorsTuple = [
  "#e8f6f8", "#d3e9ed", "#a5d3db", "#74bcc9", "#4ea9b9", "#369db0", "#2897ac", "#178397", "#0a7587", "#006576",
];

const dark: MantineColorsTuple = [
  "#d5dadd", "#b3bbc0", "#98a2a9", "#6b767d", "#3a444a", "#2c3439", "#1f252a", "#14181b", "#101315", "#0b0e10",
];

export const theme = createTheme({
  primaryColor: "petrol",
  primaryShade: { light: 9, dark: 8 },
  colors: { petrol, dark },
  fontFamily: "'Inter Variable', system-ui, sans-serif",
  fontFamilyMonospace: "'JetBrains Mono Variable', ui-monospace, monospace",
  fontSizes: { xs: "0.75rem", sm: "0.8125rem", md: "0.875rem", lg: "1rem", xl: "1.125rem" },
  headings: { fontWeight: "600", sizes: { h1: { fontSize: "1.25rem" }, h2: { fontSize: "1rem" }, h3: { fontSize: "0.875rem" } } },
  defaultRadius: "sm",
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    Table: { defaultProps: { verticalSpacing: 6, horizontalSpacing: "sm" } },
    Button: { defaultProps: { size: "xs" } },
    TextInput: { defaultProps: { size: "sm" } },
    Select: { defaultProps: { size: "sm", allowDeselect: false } },
    ActionIcon: { defaultProps: { variant: "subtle", color: "gray" } },
    Tooltip: { defaultProps: { openDelay: 300, events: { hover: true, focus: true, touch: false } } },
    Modal: { defaultProps: { centered: true, closeButtonProps: { "aria-label": "Close" } }, styles: { title: { fontWeight: 600 } } },
    ModalHeader: { defaultProps: { role: "presentation" } }, // not the page's banner
    DrawerHeader: { defaultProps: { role: "presentation" } },
    Drawer: { defaultProps: { closeButtonProps: { "aria-label": "Close" } } },
    Tabs: { defaultProps: { keepMounted: false } },
  },
});

/** Colours that reach the contrast of WCAG AA on our backgrounds, where the library's own do not. */
export const colors: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--mantine-color-body": "#ffffff",
    "--mantine-color-dimmed": "#566069",
    "--mantine-color-placeholder": "#6b747c",
    "--mantine-color-error": "#c02626",
    "--studio-surface": "#f6f8f9",
    "--studio-border": "#e2e6e9",
    "--studio-hover": "#eef2f4",
    "--studio-good": "#17703f",
    "--studio-bad": "#b3261e",
    "--studio-busy": "#0b62b8",
    "--studio-waiting": "#7a5b00",
    "--studio-calm": "#566069",
    "--studio-series-1": "#0b62b8",
    "--studio-series-2": "#c2410c",
    "--studio-series-3": "#00805a",
    "--studio-series-4": "#a33d8f",
    "--studio-series-5": "#9a6a00",
    "--studio-series-6": "#1f8fc4",
    "--studio-series-7": "#30363b",
    "--studio-series-8": "#b3261e",
    "--studio-series-9": "#6d7a00",
    "--studio-series-10": "#7a4b2a",
  },
  dark: {
    "--mantine-color-body": "#14181b",
    "--mantine-color-text": "#d5dadd",
    "--mantine-color-dimmed": "#98a2a9",
    "--mantine-color-placeholder": "#87919a",
    "--mantine-color-error": "#ff8a80",
    "--mantine-color-anchor": "#74bcc9",
    "--studio-surface": "#1b2024",
    "--studio-border": "#2c3439",
    "--studio-hover": "#232a2f",
    "--studio-good": "#5ec98a",
    "--studio-bad": "#ff8a80",
    "--studio-busy": "#6cb2f7",
    "--studio-waiting": "#e0b64c",
    "--studio-calm": "#98a2a9",
    "--studio-series-1": "#5aa9f7",
    "--studio-series-2": "#ff8f4d",
    "--studio-series-3": "#2ecf9d",
    "--studio-series-4": "#ec93d3",
    "--studio-series-5": "#f2bd3d",
    "--studio-series-6": "#86d7ff",
    "--studio-series-7": "#e4e8ea",
    "--studio-series-8": "#ff8a80",
    "--studio-series-9": "#c9d64a",
    "--studio-series-10": "#d0a27a",
  },
});
