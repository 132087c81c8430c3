import { createTheme, type CSSVariablesResolver, type MantineColorsTuple } from "@mantine/core";

const petrol: MantineColorsTuple = [
  "#e8f6f8", "#d3e9ed", "#a5d3db", "#74bcc9", "#4ea9b9", "#369db0", "#2897ac", "#178397", "#0a7587", "#006576",
];

export const theme = createTheme({
  primaryColor: "petrol",
  primaryShade: { light: 9, dark: 7 },
  colors: { petrol },
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
    Modal: { defaultProps: { centered: true, closeButtonProps: { "aria-label": "Close" } } },
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
  },
});
