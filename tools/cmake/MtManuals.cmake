# Manual pages of all programs, and completions of those beside mtrun, which tools/manuals makes of their --help.
# Packages include them. Builds with sanitizers, and machines without python3, have none.
find_program(MT_PYTHON python3)
if(MT_PYTHON AND NOT MT_SANITIZE)
  set(manuals ${CMAKE_BINARY_DIR}/manuals)
  set(programs mtrun mtrdzv mtdata mtreport)
  file(GLOB writers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/docs.d/*.py)
  if(TARGET trainer)
    list(APPEND programs trainer)
  endif()
  add_custom_command(OUTPUT ${manuals}/made
    COMMAND ${MT_PYTHON} -B ${CMAKE_SOURCE_DIR}/tools/manuals --bin ${CMAKE_BINARY_DIR}/bin --out ${manuals}
    COMMAND ${CMAKE_COMMAND} -E touch ${manuals}/made
    DEPENDS ${programs} ${CMAKE_SOURCE_DIR}/tools/manuals ${writers}
    COMMENT "Writing manual pages and completions" VERBATIM)
  add_custom_target(manuals ALL DEPENDS ${manuals}/made)
  add_dependencies(mt_programs manuals)
  set(component_mtrun launcher)
  set(component_mtrdzv service)
  set(component_mtdata data)
  set(component_mtreport trainers)
  foreach(name mtrun mtrdzv mtdata mtreport ${MT_TRAINERS})
    set(component trainers)
    if(DEFINED component_${name})
      set(component ${component_${name}})
    endif()
    install(FILES ${manuals}/man/man1/${name}.1 DESTINATION ${CMAKE_INSTALL_DATADIR}/man/man1 COMPONENT ${component} OPTIONAL)
    if(NOT name STREQUAL mtrun)
      install(FILES ${manuals}/bash-completion/completions/${name}
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT ${component} OPTIONAL)
      install(FILES ${manuals}/zsh/site-functions/_${name}
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT ${component} OPTIONAL)
      install(FILES ${manuals}/fish/vendor_completions.d/${name}.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT ${component} OPTIONAL)
    endif()
  endforeach()
endif()
