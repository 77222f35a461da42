(window.canopyMounts ??= []).push({ element, props, server, watch, trigger });
