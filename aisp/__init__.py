"""aisp, a terminal workbench for people who make GPU code fast. Its packages are the folders beside this one."""
